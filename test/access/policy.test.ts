import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AccessError, type Account, type Key, type LimitChanges, scopes } from '../../src/access/access.ts'
import { accountNamed, holdsAdmin, limited, revoked, rotated } from '../../src/access/policy.ts'
import { isPast } from '../../src/access/refusals.ts'
import type { AdminRow } from '../../src/access/rows.ts'
import { type Limits, limitNames } from '../../src/limit-values.ts'

const now = 1_760_000_000
const moment = fc.integer({ min: now - 100, max: now + 100 })
const momentOrNever = fc.option(moment, { nil: null })
const limits: fc.Arbitrary<Limits> = fc.dictionary(fc.constantFrom(...limitNames), fc.nat())
const changes: fc.Arbitrary<LimitChanges> = fc.dictionary(
  fc.constantFrom(...limitNames),
  fc.option(fc.nat(), { nil: null }),
)

const account: Account = { id: 1, name: 'ann', created: now, suspended: null, limits: {}, models: null, timeZone: null }
const key: fc.Arbitrary<Key> = fc.record({
  id: fc.constant('key_1'),
  account: fc.constant(account),
  prefix: fc.constant('cv_ab12'),
  name: fc.option(fc.string(), { nil: null }),
  scopes: fc.subarray([...scopes]),
  created: fc.constant(now),
  expires: momentOrNever,
  revoked: momentOrNever,
  lastUsed: momentOrNever,
  limits,
  ownLimits: limits,
  subject: fc.constant('key_0'),
  maker: fc.constant(null),
  models: fc.constant(null),
})

function refusalOf(work: () => unknown): AccessError | undefined {
  try {
    work()
    return undefined
  } catch (error) {
    if (error instanceof AccessError) return error
    throw error
  }
}

describe('a rotation', () => {
  it('ends the old key after the overlap, and requests a key with the same properties', () => {
    fc.assert(
      fc.property(key, fc.nat({ max: 1000 }), (old, overlap) => {
        fc.pre(old.revoked === null && !isPast(old.expires, now))
        const result = rotated(old, overlap, now)
        expect(result.old).toStrictEqual({ ...old, revoked: now + overlap })
        const { name = null, expires = null, ...rest } = result.successor
        expect({ name, expires, ...rest }).toStrictEqual({
          name: old.name,
          expires: old.expires,
          account: 'ann',
          scopes: old.scopes,
          limits: old.ownLimits,
        })
        // A key has only one successor, also during a long overlap.
        const reason = overlap === 0 ? 'is revoked' : 'has been rotated already'
        expect(refusalOf(() => rotated(result.old, overlap, now))).toMatchObject({
          code: 'key_ended',
          message: `The key cv_ab12 ${reason}, so it cannot be rotated. Make a new one.`,
        })
      }),
    )
  })

  it('is refused for every key that has ended or has a successor; a revocation is refused for revoked keys', () => {
    fc.assert(
      fc.property(key, fc.nat(), (each, overlap) => {
        const isOver = each.revoked !== null || isPast(each.expires, now)
        expect(refusalOf(() => rotated(each, overlap, now))?.code).toBe(isOver ? 'key_ended' : undefined)
        const refusal = refusalOf(() => expect(revoked(each, now)).toStrictEqual({ ...each, revoked: now }))
        expect(refusal?.code).toBe(isPast(each.revoked, now) ? 'key_ended' : undefined)
      }),
    )
  })
})

describe('a working admin key', () => {
  const row: fc.Arbitrary<AdminRow> = fc.record({
    scopes: fc.constantFrom('admin', 'chat,admin', 'plants:read,admin,chat', 'chat', 'administrator', ''),
    revoked: momentOrNever,
    expires: momentOrNever,
    suspended: momentOrNever,
  })

  it('has no revocation, not even one in the future, has not expired, and its account is not suspended', () => {
    fc.assert(
      fc.property(fc.array(row), (rows) => {
        const works = ({ scopes, revoked, expires, suspended }: AdminRow) =>
          /\badmin\b/.test(scopes) && revoked === null && suspended === null && (expires === null || expires > now)
        expect(holdsAdmin(rows, now)).toBe(rows.some(works))
        // Removing keys never adds an admin key.
        if (!holdsAdmin(rows, now)) expect(holdsAdmin(rows.slice(1), now)).toBe(false)
      }),
    )
  })
})

describe('changes of limits', () => {
  it('set named limits, remove limits with null, keep the others, and are idempotent', () => {
    fc.assert(
      fc.property(limits, changes, (before, changed) => {
        const after = limited({ limits: before }, changed).limits
        for (const name of limitNames) {
          const change = changed[name]
          expect(after[name]).toBe(change === undefined ? before[name] : (change ?? undefined))
          expect(name in after).toBe(after[name] !== undefined)
        }
        expect(limited({ limits: after }, changed).limits).toStrictEqual(after)
      }),
    )
  })
})

describe("an account's name", () => {
  it('is trimmed, begins with a letter or a digit, and has at most 100 characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 110 }), (text) => {
        const refusal = refusalOf(() => {
          const name = accountNamed(text)
          expect(name).toBe(text.trim())
          expect(accountNamed(name)).toBe(name)
          expect([...name].length).toBeLessThanOrEqual(100)
        })
        if (refusal) expect(refusal.message).toContain("cannot be an account's name")
      }),
    )
    expect(accountNamed(' Ärzte & co'.replace('&', '@'))).toBe('Ärzte @ co')
    for (const text of ['', ' ', '-ann', 'a\0b', 'a/b', 'a'.repeat(101)]) {
      expect(refusalOf(() => accountNamed(text))).toBeDefined()
    }
  })
})
