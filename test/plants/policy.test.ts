import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { checkGrantee, checkPlantsLimit, nextId, oldestValidKeySeconds, replayOf } from '../../src/plants/policy.ts'

function refusalOf(work: () => unknown): ApiError | undefined {
  try {
    work()
    return undefined
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
}

it('assigns an id above the highest, at least 1, as long as a safe integer is left', () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), (highest) => {
      fc.pre(highest < Number.MAX_SAFE_INTEGER)
      const id = nextId(highest)
      expect(Number.isSafeInteger(id)).toBe(true)
      expect(id).toBeGreaterThan(highest)
      expect(id).toBe(Math.max(1, highest + 1))
    }),
  )
  expect(refusalOf(() => nextId(Number.MAX_SAFE_INTEGER))).toMatchObject({
    status: 409,
    code: 'no_id_left',
    param: 'id',
  })
})

it('lets an account have exactly as many plants as its limit says', () => {
  fc.assert(
    fc.property(fc.nat({ max: 50 }), (limit) => {
      let count = 0
      while (!refusalOf(() => checkPlantsLimit(limit, count))) count++
      expect(count).toBe(limit)
    }),
  )
  expect(refusalOf(() => checkPlantsLimit(1, 2))).toMatchObject({ status: 429, code: 'plants_limit', headers: {} })
})

it('lets an account share its plants with every account but itself', () => {
  fc.assert(
    fc.property(fc.nat(), fc.nat(), (account, grantee) => {
      expect(refusalOf(() => checkGrantee(account, grantee))?.code).toBe(account === grantee ? 'own_plants' : undefined)
    }),
  )
})

it('replies to a repeated request like the first time, and refuses another request with the same key', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.option(fc.string(), { nil: null }), (asked, request, tag) => {
      const first = { request: asked, plant: 7, name: 'Fern', tag }
      const refusal = refusalOf(() => {
        const { plant, isReplay } = replayOf(3, first, { key: 'k', request })
        expect(isReplay).toBe(true)
        expect(plant).toStrictEqual({ account: 3, id: 7, name: 'Fern', ...(tag === null ? {} : { tag }) })
      })
      expect(refusal?.code).toBe(asked === request ? undefined : 'key_reused')
    }),
  )
})

it('keeps idempotency keys for a day', () => {
  expect(oldestValidKeySeconds(1_760_000_000)).toBe(1_760_000_000 - 86_400)
})
