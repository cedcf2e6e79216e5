import { setImmediate as endOfTurn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { changePlant, readDetailed } from '../../src/plants/details.ts'
import { checkedPlant, type PlantQuery, type PlantStore } from '../../src/plants/plant.ts'
import { oldestValidKeySeconds } from '../../src/plants/policy.ts'
import type { Plant } from '../../src/plants/schemas.ts'
import { type Prunable, pruneOnce } from '../../src/storage/prune.ts'
import { query } from '../../src/storage/scripts.ts'
import { unixSeconds } from '../../src/time.ts'
import { engines, type TestDatabase } from '../support/engines.ts'
import { eachPage, namesOf, plantsOf } from '../support/plant-pages.ts'

const write = fc.oneof(
  fc.record({ what: fc.constant('add' as const), id: fc.option(fc.integer({ min: -2, max: 12 }), { nil: undefined }) }),
  fc.record({ what: fc.constant('remove' as const), id: fc.integer({ min: -2, max: 12 }) }),
)

/** The outcome of a write: its answer, or the status of its refusal. */
function settled<T>(result: Promise<T>): Promise<T | number> {
  return result.catch((error: unknown) => {
    if (error instanceof ApiError) return error.status
    throw error
  })
}

/** The fields of a plant that are set, with trimmed texts. */
function withoutUnset(fields: Record<string, unknown>): Record<string, unknown> {
  const set = Object.entries(fields).filter(([, value]) => value !== null && value !== false)
  return Object.fromEntries(set.map(([name, value]) => [name, typeof value === 'string' ? value.trim() : value]))
}

async function readAll(store: PlantStore, account: number, query: PlantQuery = {}): Promise<readonly Plant[]> {
  const plants: Plant[] = []
  for await (const page of store.listLong(account, query, eachPage)) plants.push(...plantsOf(page))
  return plants
}

describe.each(engines)('plants in $name', (engine) => {
  let database: TestDatabase
  let store: PlantStore

  beforeAll(async () => {
    database = await engine.openDatabase()
    store = database.openPlants()
  })
  afterAll(() => database.close())

  it('keep the newest 10,000 idempotency keys of removed plants, and all keys of plants that are there', async () => {
    const account = await database.newAccount()
    const other = await database.newAccount()
    const key = (name: string) => ({ key: name, request: 'r' })
    const addOnce = async (owner: number, name: string) => store.create(owner, { name: 'Fern' }, key(name))
    const kept = await addOnce(account, 'kept')
    await store.remove(other, (await addOnce(other, 'removed')).plant.id)
    // Rows of plants that were removed earlier, the oldest first.
    const old = unixSeconds() - 20_000
    await database.run(`INSERT INTO idempotency_keys (account, key, request, plant, name, created, removed)
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
      SELECT ${account}, 'old-' || i, 'r', 1000000 + i, 'Fern', ${old} + i, 1 FROM n`)
    const isKnown = async (name: string, owner = account): Promise<boolean> => {
      const { isReplay, plant } = await addOnce(owner, name)
      if (!isReplay) await store.remove(owner, plant.id)
      return isReplay
    }
    const first = await addOnce(account, 'first')
    await store.remove(account, first.plant.id)
    expect([await isKnown('old-1'), await isKnown('first')]).toEqual([true, true])
    // Also a plant that is added and removed in one group commit.
    const id = first.plant.id + 5
    await Promise.all([store.create(account, { name: 'Moss', id }, key('second')), store.remove(account, id)])
    expect([await isKnown('old-2'), await isKnown('second'), await isKnown('first')]).toEqual([true, true, true])
    // This asks for a key that is forgotten, so the question makes a key and forgets the next.
    expect([await isKnown('old-1'), await isKnown('old-2'), await isKnown('old-3')]).toEqual([false, false, false])
    expect(await isKnown('old-9999')).toBe(true)
    expect([(await addOnce(account, 'kept')).plant.id, await isKnown('removed', other)]).toEqual([kept.plant.id, true])
  })

  it('that are written in one transaction get the results of writes one after the other', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(write, { maxLength: 8 }), { maxLength: 5 }), async (batches) => {
        const account = await database.newAccount()
        const there = new Map<number, string>()
        let count = 0
        for (const batch of batches) {
          const writes = batch.map((each) => ({ ...each, name: `plant ${++count}` }))
          const found = await Promise.all(
            writes.map(async (write) => {
              if (write.what === 'remove') return store.remove(account, write.id)
              const { id, name } = write
              const added = store.create(account, { name, ...(id === undefined ? {} : { id }) })
              return settled(added.then(({ plant }) => plant.id))
            }),
          )
          const expected = writes.map((write) => {
            if (write.what === 'remove') return there.delete(write.id)
            const given = write.id ?? Math.max(0, ...there.keys()) + 1
            if (there.has(given)) return 409
            there.set(given, write.name)
            return given
          })
          expect(found).toStrictEqual(expected)
        }
        const inOrder = [...there].toSorted(([one], [other]) => one - other)
        expect(await readAll(store, account)).toStrictEqual(inOrder.map(([, name]) => ({ name })))
      }),
      { numRuns: 100 },
    )
  })

  it('come in pages from any position, with any gaps between their ids', async () => {
    const runs = fc.array(fc.record({ gap: fc.integer({ min: 1, max: 4 }), length: fc.integer({ min: 1, max: 9 }) }))
    const questions = fc.array(fc.tuple(fc.integer({ min: -5, max: 60 }), fc.integer({ min: 1, max: 6 })), {
      minLength: 20,
      maxLength: 40,
    })
    await fc.assert(
      fc.asyncProperty(runs, questions, async (runs, questions) => {
        const account = await database.newAccount()
        const ids: number[] = []
        for (const { gap, length } of runs) {
          const start = (ids.at(-1) ?? -3) + gap
          ids.push(...Array.from({ length }, (_, index) => start + index))
        }
        await Promise.all(ids.map((id) => store.create(account, { id, name: `plant ${id}` })))
        for (const [id, limit] of questions) {
          const page = await store.list(account, { after: { account, id } }, limit)
          const rest = ids.filter((each) => each > id)
          const shown = rest.slice(0, limit)
          expect(namesOf(page)).toStrictEqual(shown.map((each) => `plant ${each}`))
          expect(page.last).toStrictEqual(rest.length > limit ? { account, id: shown.at(-1) } : undefined)
        }
      }),
      { numRuns: 50 },
    )
  })

  it('are added once for an idempotency key, which is kept for a day', async () => {
    const account = await database.newAccount()
    const add = (name: string) => store.create(account, { name }, { key: 'key', request: name })
    const [first, second] = await Promise.allSettled([add('one'), (async () => add('one'))()])
    const plant = { account, id: 1, name: 'one' }
    expect(first).toMatchObject({ value: { plant, isReplay: false } })
    expect(second).toMatchObject({ reason: { status: 409, code: 'still_running' } })
    await store.remove(account, 1)
    expect(await add('one')).toStrictEqual({ plant, created: expect.any(Number), isReplay: true })
    await expect(add('two')).rejects.toMatchObject({ status: 422, code: 'key_reused' })
    expect(await store.list(account, {}, 10)).toEqual({ json: '[]' })
    await database.run(`UPDATE idempotency_keys SET created = created - 86401 WHERE account = ${account}`)
    expect(await add('two')).toStrictEqual({
      plant: { account, id: 1, name: 'two' },
      created: expect.any(Number),
      isReplay: false,
    })
    expect(await add('two')).toMatchObject({ isReplay: true })
  })

  it('keep idempotency keys until they have expired; expired keys are removed in batches, and not by other writes', async () => {
    const account = await database.newAccount()
    await store.create(account, { name: 'kept' }, { key: 'kept', request: 'kept' })
    await database.run(`
      INSERT INTO idempotency_keys (account, key, request, plant, name, created)
      WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 1200)
      SELECT ${account}, 'old ' || id, 'r', id, 'old', id FROM ids`)
    // An expired key can be used again, and is then valid for another day.
    const add = () => store.create(account, { name: 'anew' }, { key: 'old 1200', request: 'anew' })
    expect(await add()).toMatchObject({ isReplay: false })
    const portions: number[] = []
    const counting: Prunable = {
      async prune(before, most) {
        const count = await store.removeExpiredKeys(before, most)
        portions.push(count)
        return count
      },
    }
    expect(await pruneOnce(counting, 601)).toBe(600)
    expect(await pruneOnce(counting, oldestValidKeySeconds(unixSeconds()))).toBe(599)
    expect(portions.filter((count) => count > 500)).toEqual([])
    expect(await add()).toMatchObject({ isReplay: true })
    expect(await store.create(account, { name: 'kept' }, { key: 'kept', request: 'kept' })).toMatchObject({
      isReplay: true,
    })
  })

  it('of a deleted account are refused, and the other writes of the same transaction are done', async () => {
    const account = await database.newAccount()
    const writes = [store.create(account, { name: 'a' }), store.create(987, { name: 'b' }), store.remove(account, 1)]
    const [first, orphan, removal] = await Promise.allSettled<unknown>(writes)
    expect(first).toMatchObject({ value: { plant: { id: 1 } } })
    expect(orphan).toMatchObject({ reason: { status: 403, code: 'account_deleted' } })
    expect(removal).toMatchObject({ value: true })
    await expect(store.share(account, 987)).rejects.toMatchObject({ status: 403, code: 'account_deleted' })
  })

  it('have one key of cursors, made once, also when several replicas need it at the same moment', async () => {
    const opened = engine.hasReplicas ? [store, database.openPlants(), database.openPlants()] : [store, store]
    const keys = await Promise.all(opened.map((each) => each.cursorKey()))
    expect(new Set(keys.map((key) => key.toString('hex'))).size).toBe(1)
    expect(keys[0]?.length).toBe(32)
    expect(await store.cursorKey()).toEqual(keys[0])
  })

  it('keep details and versions through additions, changes and removals that are written together', async () => {
    const place = fc.constantFrom('Hall', 'Office')
    const notes = fc.constantFrom('a', 'b\n')
    const set = fc.record({ tag: place, place, notes, archived: fc.boolean() }, { requiredKeys: [] })
    const unset = fc.record(
      {
        name: place,
        place: fc.option(place),
        notes: fc.option(notes),
        archived: fc.option(fc.boolean()),
        tag: fc.option(place),
      },
      { requiredKeys: [] },
    )
    const id = fc.integer({ min: 1, max: 4 })
    const step = fc.oneof(
      fc.record({ what: fc.constant('add' as const), id, fields: set }),
      fc.record({ what: fc.constant('change' as const), id, fields: unset }),
      fc.record({ what: fc.constant('remove' as const), id, version: fc.integer({ min: 1, max: 3 }) }),
    )
    const scripts = database.openScripts()
    // While the clock stands at 0, versions are counts.
    vi.useFakeTimers({ toFake: ['Date'], now: 0 })
    onTestFinished(() => {
      vi.useRealTimers()
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const account = await database.newAccount()
        const model = new Map<number, { version: number; fields: Record<string, unknown> }>()
        for (const [index, each] of steps.entries()) {
          const known = model.get(each.id)
          if (each.what === 'add') {
            const name = `plant ${index}`
            const added = settled(store.create(account, checkedPlant({ name, id: each.id, ...each.fields })))
            if (known) expect(await added).toBe(409)
            else expect(await added).toMatchObject({ plant: { id: each.id } })
            if (!known) model.set(each.id, { version: 1, fields: withoutUnset({ name, ...each.fields }) })
          } else if (each.what === 'change') {
            const changed = settled(store.change(account, () => changePlant(account, each.id, each.fields)))
            const fields = withoutUnset({ ...known?.fields, ...each.fields })
            if (known && !isDeepStrictEqual(fields, known.fields))
              model.set(each.id, { version: known.version + 1, fields })
            expect(await changed).toEqual(
              known ? expect.objectContaining({ version: model.get(each.id)?.version }) : 404,
            )
          } else {
            const check = (version: number) => {
              if (version !== each.version) throw new ApiError(412, 'other', 'Another version.')
            }
            const isRemoved = await settled(store.remove(account, each.id, check))
            expect(isRemoved).toBe(known ? (known.version === each.version ? true : 412) : false)
            if (isRemoved === true) model.delete(each.id)
          }
        }
        const found = await scripts.read(() => readDetailed(account, [1, 2, 3, 4]))
        const shown = [...found.values()].map(
          ({ account: _account, created: _created, updated: _updated, ...plant }) => plant,
        )
        const expected = [...model].map(([plant, { version, fields }]) => ({ id: plant, version, ...fields }))
        expect(shown.toSorted((a, b) => a.id - b.id)).toEqual(expected.toSorted((a, b) => a.id - b.id))
        const rows = await scripts.read(() =>
          query<{ plant: number }>('SELECT plant FROM plant_details WHERE account = $1 ORDER BY plant', account),
        )
        const withNotes = [...model].filter(([, { fields }]) => 'notes' in fields).map(([plant]) => plant)
        expect(rows.map(({ plant }) => plant)).toEqual(withNotes.toSorted((a, b) => a - b))
      }),
      { numRuns: engine.hasReplicas ? 25 : 100 },
    )
  })

  it('(y) have a new version after each change that an account sees, and the same version otherwise', async () => {
    const [ann, bob, cat] = [await database.newAccount(), await database.newAccount(), await database.newAccount()]
    const transfers = database.openTransfers()
    const key = { account: ann, digest: 'd' }
    const seen = new Set([await store.fetchVersion(bob)])
    const changes: Readonly<Record<string, () => Promise<unknown>>> = {
      'a plant': () => store.create(bob, { name: 'own' }),
      'a plant with an idempotency key': () => store.create(bob, { name: 'own' }, { key: 'k', request: 'r' }),
      'a script': () => store.change(bob, () => query('UPDATE plants SET updated = 1 WHERE account = $1', bob)),
      'a plant is removed': () => store.remove(bob, 1),
      'a tag is shared': () => store.share(ann, bob, 'x'),
      'all plants are shared': () => store.share(ann, bob),
      'a plant of the sharer': () => store.create(ann, { name: 'shared', id: 9 }),
      'an import of the sharer': () => transfers.beginImport(key, 2, { id: 8, name: 'highest' }),
      'plants of that import': () => transfers.addPlants(key, 0, [{ id: 7, name: 'lower' }], false),
      'a plant of the import is removed': () => transfers.removePlants(ann, [{ id: 7, name: 'lower' }]),
      'all shares are revoked': () => store.unshare(ann, bob),
      'all plants are shared again': () => store.share(ann, bob),
      'all shares are revoked again': () => store.unshare(ann, bob),
    }
    for (const [name, change] of Object.entries(changes)) {
      const size = seen.size
      await change()
      // A write by another connection is seen in the next turn, as between two requests.
      await endOfTurn()
      seen.add(await store.fetchVersion(bob))
      expect(seen.size, name).toBe(size + 1)
    }
    const last = await store.fetchVersion(bob)
    expect(last).not.toBeNull()
    await readAll(store, bob)
    await store.create(bob, { name: 'own' }, { key: 'k', request: 'r' }).catch(() => undefined)
    if (engine.hasReplicas) {
      // Changes of other accounts do not change the version, and all replicas report the same version.
      await store.create(cat, { name: 'not seen' })
      await store.create(ann, { name: 'no longer seen' })
      await settled(store.create(bob, { name: 'taken', id: 2 }))
      expect(await database.openPlants().fetchVersion(bob)).toBe(last)
    } else expect(await store.fetchVersion(bob)).toBe(last)
    expect(await store.fetchVersion(cat)).not.toBe(last)
  })
})
