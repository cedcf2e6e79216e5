import { setImmediate as endOfTurn } from 'node:timers/promises'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { ApiError } from '../../src/errors.ts'
import type { ManyPlants, PlantStore } from '../../src/plants/plant.ts'
import type { NewPlant } from '../../src/plants/schemas.ts'
import { engines, type TestDatabase } from '../support/engines.ts'

const faultAt = (index: number, error: ApiError) => error.withParam(null, `[${index}] ${error.message}`)
const named = (count: number, prefix = 'Fern'): NewPlant[] =>
  Array.from({ length: count }, (_, index) => ({ name: `${prefix} ${index}` }))

describe.each(engines)('many plants over $name', (engine) => {
  let database: TestDatabase
  let store: PlantStore
  let account: number

  beforeEach(async () => {
    database = await engine.openDatabase()
    onTestFinished(() => database.close())
    store = database.openPlants()
    account = await database.newAccount()
  })

  const add = (plants: readonly NewPlant[], more: Partial<ManyPlants> = {}) =>
    store.createMany({ account, plants, faultAt, ...more })
  const all = async () => JSON.parse((await store.list(account, { withIds: true }, 100_000)).json)

  it('get ids in their order, as if each was added after the one before', async () => {
    await store.create(account, { name: 'First', id: 7 })
    const { plants } = await add([
      { name: 'a' },
      { name: 'b', id: 100, tag: 't' },
      { name: 'c' },
      { name: 'd', id: -5 },
    ])
    expect(plants.map(({ id }) => id)).toEqual([8, 100, 101, -5])
    expect((await store.create(account, { name: 'Next' })).plant.id).toBe(102)
    expect(await store.count(account)).toBe(6)
    expect(await all()).toEqual([
      { id: -5, name: 'd' },
      { id: 7, name: 'First' },
      { id: 8, name: 'a' },
      { id: 100, name: 'b', tag: 't' },
      { id: 101, name: 'c' },
      { id: 102, name: 'Next' },
    ])
  })

  it.each([3, 1003])('of %i are added all or none, and a fault names its place', async (count) => {
    const last = count - 1
    await store.create(account, { name: 'There', id: 5000 })
    const taken = [...named(last), { name: 'Taken', id: 5000 }]
    await expect(add(taken)).rejects.toMatchObject({
      status: 409,
      message: expect.stringContaining(`[${last}] There is`),
    })
    await expect(store.checkMany({ account, plants: taken, faultAt })).rejects.toMatchObject({ status: 409 })
    const twice = [{ name: 'One', id: 1 }, ...named(last - 1), { name: 'Two', id: 1 }]
    await expect(add(twice)).rejects.toMatchObject({
      status: 409,
      message: expect.stringContaining(`[${last}] There is`),
    })
    const none = [{ name: 'Highest', id: Number.MAX_SAFE_INTEGER }, ...named(last)]
    await expect(add(none)).rejects.toMatchObject({ status: 409, code: 'no_id_left' })
    await expect(add(named(count), { limit: count })).rejects.toMatchObject({ status: 429, code: 'plants_limit' })
    await store.checkMany({ account, plants: named(count), faultAt, limit: count + 1 })
    expect(await all()).toEqual([{ id: 5000, name: 'There' }])
    await add(named(count), { limit: count + 1 })
    await expect(store.create(account, { name: 'More' }, undefined, count + 1)).rejects.toMatchObject({ status: 429 })
    expect(await store.count(account)).toBe(count + 1)
  })

  it.each([3, 1003])('of %i are added once for an idempotency key', async (count) => {
    const idempotency = { key: 'batch a', request: 'one' }
    const first = await add(named(count), { idempotency })
    await store.remove(account, 2)
    const again = await Promise.all([add(named(count), { idempotency }), add(named(count), { idempotency })])
    for (const each of again) expect(each).toEqual({ ...first, isReplay: true })
    await expect(add(named(count), { idempotency: { key: 'batch a', request: 'two' } })).rejects.toMatchObject({
      status: 422,
    })
    expect(await store.count(account)).toBe(count - 1)
  })

  it('wait for each other and for other writes, and readers see all or none', async () => {
    const seen = new Set<number>()
    const version = await store.fetchVersion(account)
    const [a, b] = [add(named(1500, 'a')), add(named(1500, 'b'))]
    const writing = Promise.all([a, b, store.create(account, { name: 'single' })])
    let isOver = false
    const watch = (async () => {
      while (!isOver) {
        seen.add((await all()).length)
        await endOfTurn()
      }
    })()
    await writing
    isOver = true
    await watch
    const plants = await all()
    expect(new Set(plants.map(({ id }: { id: number }) => id)).size).toBe(3001)
    for (const name of ['a', 'b']) {
      const ids = plants.filter((plant: NewPlant) => plant.name.startsWith(`${name} `)).map(({ id }: NewPlant) => id)
      expect(ids.at(-1) - ids[0]).toBe(1499)
    }
    expect([0, 1, 1500, 1501, 3000, 3001]).toEqual(expect.arrayContaining([...seen]))
    expect(await store.fetchVersion(account)).not.toBe(version)
    expect(await store.count(account)).toBe(3001)
  })
})
