import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import type { AddedPlant, PlantStore, StoredPlant } from '../../src/plants/plant.ts'
import { engines, type TestDatabase } from '../support/engines.ts'
import { eachPage, namesOf, plantsOf } from '../support/plant-pages.ts'

describe.each(engines.filter(({ hasReplicas }) => hasReplicas))('two replicas over $name', (engine) => {
  let database: TestDatabase
  let replicas: readonly [PlantStore, PlantStore]

  beforeAll(async () => {
    database = await engine.openDatabase()
    replicas = [database.openPlants(), database.openPlants()]
  })
  afterAll(() => database.close())

  /** The store for the request with this number. */
  const storeFor = (index: number): PlantStore => replicas[index % 2 === 0 ? 0 : 1]

  it('keep every acknowledged plant of several accounts exactly once, with assigned ids and with ids that collide', async () => {
    const accounts = [await database.newAccount(), await database.newAccount()]
    const results = await Promise.all(
      Array.from({ length: 200 }, async (_, index) => {
        // The requests begin at different times, so that the replicas' transactions overlap in many ways.
        await new Promise((resolve) => setTimeout(resolve, (index % 10) * 5))
        const account = accounts[Math.floor(index / 2) % 2] ?? 0
        const id = index % 4 < 2 ? {} : { id: 1 + (index % 60) }
        return statusOr(storeFor(index).create(account, { name: `${index}`, ...id }))
      }),
    )
    const added = results.filter((result) => typeof result === 'object').map(({ plant }) => plant)
    const refused = results.filter((result) => typeof result === 'number')
    expect(new Set(refused)).toEqual(new Set([409]))
    expect(added.length).toBeGreaterThanOrEqual(100)
    const byPlace = (one: StoredPlant, other: StoredPlant) => one.account - other.account || one.id - other.id
    for (const store of replicas) {
      const there = await Promise.all(accounts.map((account) => store.list(account, {}, 1000)))
      expect(there.flatMap(namesOf)).toStrictEqual(added.toSorted(byPlace).map(({ name }) => name))
    }
  })

  it('add a plant once when both replicas get the same request at the same moment', async () => {
    const account = await database.newAccount()
    const keys = Array.from({ length: 30 }, (_, index) => `key ${index}`)
    const answers = await Promise.all(
      keys.map(async (key) => {
        const idempotency = { key, request: 'same' }
        return Promise.all(replicas.map((store) => store.create(account, { name: key }, idempotency)))
      }),
    )
    for (const pair of answers) {
      expect(new Set(pair.map(({ isReplay }) => isReplay))).toEqual(new Set([false, true]))
      expect(pair[0]?.plant).toStrictEqual(pair[1]?.plant)
    }
    const there = namesOf(await replicas[0].list(account, {}, 100))
    expect(there.toSorted()).toEqual(keys.toSorted())
    const other = { key: 'key 0', request: 'another' }
    expect(await statusOr(replicas[1].create(account, { name: 'other' }, other))).toBe(422)
  })

  it('never exceed a limit together', async () => {
    const account = await database.newAccount()
    const results = await Promise.all(
      Array.from({ length: 40 }, (_, index) => statusOr(storeFor(index).create(account, { name: 'a' }, undefined, 7))),
    )
    expect(results.filter((result) => typeof result === 'object')).toHaveLength(7)
    expect(results.filter((result) => result === 429)).toHaveLength(33)
  })

  it('see the writes and shares of each other as soon as the writes are acknowledged', async () => {
    const [ann, bob] = [await database.newAccount(), await database.newAccount()]
    const [here, there] = replicas
    const sees = async () => namesOf(await there.list(bob, {}, 10))
    for (let round = 1; round <= 20; round++) {
      const { plant } = await here.create(ann, { name: `plant ${round}` })
      expect(await there.find(ann, plant.id)).toStrictEqual({ ...plant, version: expect.any(Number) })
      await here.share(ann, bob)
      expect(await sees()).toEqual([`plant ${round}`])
      await here.unshare(ann, bob)
      expect(await sees()).toEqual([])
      expect([await there.remove(ann, plant.id), await here.remove(ann, plant.id)]).toEqual([true, false])
    }
  })

  it('serve other requests while slow readers read long lists', async () => {
    const account = await database.newAccount()
    const [store] = replicas
    await Promise.all(Array.from({ length: 600 }, () => store.create(account, { name: 'a' })))
    const readers = Array.from({ length: 15 }, () => store.listLong(account, {}, eachPage)[Symbol.asyncIterator]())
    const waiting = readers.map(async (reader) => {
      const page = await reader.next()
      return page.done ? 0 : plantsOf(page.value).length
    })
    await waiting[0]
    expect(await store.find(account, 600)).toMatchObject({ id: 600 })
    expect((await store.create(account, { name: 'a' })).plant.id).toBe(601)
    for (const [index, reader] of readers.entries()) {
      expect(await waiting[index]).toBe(500)
      await reader.return?.()
    }
  })

  it('do not deadlock when both write to the same accounts in opposite order', async () => {
    const accounts = await Promise.all(Array.from({ length: 6 }, () => database.newAccount()))
    const added = await Promise.all(
      replicas.flatMap((store, replica) =>
        Array.from({ length: 20 }, async (_, round) => {
          await new Promise((resolve) => setTimeout(resolve, round * 3))
          const order = replica === 0 ? accounts : accounts.toReversed()
          return Promise.all(order.map((account) => store.create(account, { name: 'a' })))
        }),
      ),
    )
    const ids = added.flat().map(({ plant }) => `${plant.account} ${plant.id}`)
    const expected = accounts.flatMap((account) => Array.from({ length: 40 }, (_, index) => `${account} ${index + 1}`))
    expect(ids.toSorted()).toEqual(expected.toSorted())
    for (const account of accounts) expect(plantsOf(await replicas[0].list(account, {}, 100))).toHaveLength(40)
  })
})

/** The answer of a write, or the status of its refusal. */
async function statusOr(result: Promise<AddedPlant>): Promise<AddedPlant | number> {
  try {
    return await result
  } catch (error) {
    if (error instanceof ApiError) return error.status
    throw error
  }
}
