import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { type PlantStore, type StoredPlant, toReply } from '../../src/plants/plant.ts'
import type { Plant } from '../../src/plants/schemas.ts'
import { engines, type TestDatabase } from '../support/engines.ts'
import { often } from '../support/often.ts'
import { eachPage, plantsOf } from '../support/plant-pages.ts'
import {
  create,
  find,
  id,
  limit,
  type ModelledPlant,
  PlantsModel,
  people,
  remove,
  tag,
  who,
} from '../support/plants-model.ts'

/** A position in a list: any id in any account. The account with the highest number makes no calls. */
const after = fc.option(fc.record({ owner: fc.nat({ max: people }), id }), { nil: undefined })
const grant = { who, grantee: who, tag, fromOutside: fc.boolean() }
const share = fc.record({ kind: fc.constant('share'), ...grant })
const unshare = fc.record({ kind: fc.constant('unshare'), ...grant })

describe.each(engines)('under random calls of accounts that share and revoke shares, in $name', (engine) => {
  let database: TestDatabase
  let store: PlantStore
  /** The stores of a command beside the service, or of another replica. */
  let outside: PlantStore

  beforeAll(async () => {
    database = await engine.openDatabase()
    store = database.openPlants()
    outside = database.openPlants()
  })

  afterAll(() => database.close())

  const question = { who, tag, after, withIds: fc.boolean() }
  const list = fc.record({ kind: fc.constant('list'), limit, ...question })
  const listLong = fc.record({ kind: fc.constant('listLong'), ...question })
  const call = fc.oneof(
    { arbitrary: create, weight: 6 },
    { arbitrary: remove, weight: 2 },
    { arbitrary: find, weight: 2 },
    { arbitrary: list, weight: 6 },
    { arbitrary: listLong, weight: 1 },
    { arbitrary: share, weight: 2 },
    { arbitrary: unshare, weight: 1 },
  )
  let planted = 0

  async function makeAccounts(): Promise<readonly number[]> {
    const made: number[] = []
    for (let index = 0; index <= people; index++) made.push(await database.newAccount())
    return made
  }

  it('the store shows each account exactly its own and shared plants, with versions that are never stale', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 400, maxLength: 400 }), async (calls) => {
        const accounts = await makeAccounts()
        const account = (index: number) => accounts[index] ?? 0
        const toStored = ({ owner, ...plant }: ModelledPlant): StoredPlant => ({
          account: account(owner),
          id: plant.id,
          name: plant.name,
          ...(plant.tag === undefined ? {} : { tag: plant.tag }),
        })
        const model = new PlantsModel()
        /** The plants that each account saw at each version. */
        const seen = new Map<string, string>()
        for (const call of calls) {
          const me = account(call.who)
          if (call.kind === 'create') {
            const name = call.key === undefined ? `${call.who}/${++planted}` : 'keyed'
            const asked = JSON.stringify([name, call.id, call.tag])
            const first = model.keyed.get(`${call.who} ${call.key}`)
            const given = call.id ?? model.nextId(call.who)
            const plant = { owner: call.who, id: given, name, tag: call.tag }
            const wanted = {
              name,
              ...(call.id === undefined ? {} : { id: call.id }),
              ...(call.tag === undefined ? {} : { tag: call.tag }),
            }
            const made = store.create(
              me,
              wanted,
              call.key === undefined ? undefined : { key: call.key, request: asked },
            )
            if (first) {
              if (first.asked === asked) {
                expect(await made).toStrictEqual({ plant: toStored(first.plant), isReplay: true })
              } else expect(await statusOf(made)).toBe(422)
            } else if (model.own(call.who, given)) expect(await statusOf(made)).toBe(409)
            else {
              expect(await made).toStrictEqual({ plant: toStored(plant), isReplay: false })
              model.plants.push(plant)
              if (call.key !== undefined) model.keyed.set(`${call.who} ${call.key}`, { asked, plant })
            }
          } else if (call.kind === 'remove') {
            expect(await store.remove(me, call.id)).toBe(model.remove(call.who, call.id))
          } else if (call.kind === 'find') {
            const plant = model.own(call.who, call.id)
            expect(await store.find(me, call.id)).toStrictEqual(plant && toStored(plant))
          } else if (call.kind === 'share' || call.kind === 'unshare') {
            const plants = call.fromOutside ? outside : store
            const sharing = [me, account(call.grantee), call.tag] as const
            if (call.kind === 'unshare') {
              expect(await plants.unshare(...sharing)).toBe(model.unshare(call.who, call.grantee, call.tag))
            } else if (call.who === call.grantee) {
              expect(() => plants.share(...sharing)).toThrow(ApiError)
            } else {
              const grant = `${call.who} ${call.grantee} ${call.tag ?? ''}`
              expect(await plants.share(...sharing)).toBe(!model.grants.has(grant))
              model.grants.add(grant)
            }
          } else {
            const query = {
              withIds: call.withIds,
              ...(call.tag === undefined ? {} : { tag: call.tag }),
              ...(call.after === undefined ? {} : { after: { account: account(call.after.owner), id: call.after.id } }),
            }
            const expected = model.visible(call.who, call.tag, call.after).map(toStored)
            const shownOf = (plants: readonly StoredPlant[]) =>
              plants.map((plant) => toReply(plant, call.withIds && plant.account === me))
            if (call.kind === 'list') {
              const page = await store.list(me, query, call.limit)
              const last = expected.length > call.limit ? expected[call.limit - 1] : undefined
              expect(plantsOf(page)).toStrictEqual(shownOf(expected.slice(0, call.limit)))
              const position = last && { account: last.account, id: last.id }
              expect(page.last).toStrictEqual(position)
              if (store.endOfPage) expect(await store.endOfPage(me, query, call.limit)).toStrictEqual(position)
            } else {
              const shown: Plant[] = []
              for await (const page of store.listLong(me, query, eachPage)) shown.push(...plantsOf(page))
              expect(shown).toStrictEqual(shownOf(expected))
            }
          }
          for (let viewer = 0; viewer < people; viewer++) {
            const known = store.version(account(viewer))
            if (known === null) continue
            const version = `${viewer} ${known}`
            const sight = JSON.stringify(model.visible(viewer))
            expect(seen.get(version) ?? sight).toBe(sight)
            seen.set(version, sight)
          }
        }
      }),
      {
        numRuns: often(engine.hasReplicas ? 2 : 10),
        endOnFailure: true,
      },
    )
  })
})

async function statusOf(refused: Promise<unknown>): Promise<number | undefined> {
  const error: unknown = await refused.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  return error instanceof ApiError ? error.status : undefined
}
