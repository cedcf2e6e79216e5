import fc from 'fast-check'
import { expect, it, onTestFinished } from 'vitest'
import type { PlantPage, Position } from '../../src/plants/plant.ts'
import { engines } from '../support/engines.ts'
import { namesOf } from '../support/plant-pages.ts'

const overPostgres = engines.filter(({ hasReplicas }) => hasReplicas)

it.each(overPostgres)(
  'a long list in $name has each plant that exists all the time exactly once, while plants are added and removed',
  async (engine) => {
    const database = await engine.openDatabase()
    onTestFinished(() => database.close())
    const store = database.openPlants()
    const change = fc.record({ page: fc.nat(3), id: fc.integer({ min: 1, max: 4000 }), isAdded: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 20 }), fc.boolean(), async (changes, isBounded) => {
        const [ann, bob] = [await database.newAccount(), await database.newAccount()]
        // Both accounts have plants with all even ids, so that other plants can get the odd ids.
        for (const account of [ann, bob])
          await database.run(`
          INSERT INTO plants (account, id, name)
          WITH RECURSIVE ids (id) AS (SELECT 2 UNION ALL SELECT id + 2 FROM ids WHERE id < 2000)
          SELECT ${account}, ids.id, 'plant ${account} ' || ids.id FROM ids`)
        await store.share(bob, ann)
        const removed = new Set<string>()
        let place = 0
        async function* all(pages: (upTo?: Position) => AsyncIterable<PlantPage>): AsyncIterable<PlantPage> {
          for await (const page of pages(isBounded ? { account: bob, id: 1000 } : undefined)) {
            yield page
            for (const { id, isAdded } of changes.filter((each) => each.page === place)) {
              const account = id % 4 < 2 ? ann : bob
              if (isAdded) await store.create(account, { name: `new ${id}`, id: 2 * id + 1 }).catch(() => undefined)
              else if (await store.remove(account, 2 * (id % 1000))) removed.add(`plant ${account} ${2 * (id % 1000)}`)
            }
            place++
          }
        }
        const seen: string[] = []
        for await (const page of store.listLong(ann, {}, all)) seen.push(...namesOf(page))
        expect(new Set(seen).size).toBe(seen.length)
        const ids = (most: number) => Array.from({ length: most / 2 }, (_, index) => 2 * index + 2)
        const wanted = [
          ...ids(2000).map((id) => `plant ${ann} ${id}`),
          ...ids(isBounded ? 1000 : 2000).map((id) => `plant ${bob} ${id}`),
        ]
        const old = seen.filter((name) => name.startsWith('plant'))
        expect(old.filter((name) => !removed.has(name))).toEqual(wanted.filter((name) => !removed.has(name)))
      }),
      { numRuns: 10 },
    )
  },
)

it.each(overPostgres)(
  'the end of a page of more than 50,000 plants in $name is where its last plant is',
  async (engine) => {
    const database = await engine.openDatabase()
    onTestFinished(() => database.close())
    const store = database.openPlants()
    const [ann, bob] = [await database.newAccount(), await database.newAccount()]
    // Ann has 60,000 plants, and Bob has 50,000.
    for (const [account, most] of [
      [ann, 60_000],
      [bob, 50_000],
    ])
      await database.run(`
      INSERT INTO plants (account, id, name)
      WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < ${most})
      SELECT ${account}, ids.id, 'plant' FROM ids`)
    await store.share(bob, ann)
    const endOf = (limit: number) => store.endOfPage?.(ann, {}, limit)
    for (const id of [1, 49_999, 50_000, 50_001, 60_000]) expect(await endOf(id)).toEqual({ account: ann, id })
    for (const id of [1, 40_000, 40_001, 49_999]) expect(await endOf(60_000 + id)).toEqual({ account: bob, id })
    // No plants follow.
    for (const limit of [110_000, 110_001, 1_000_000]) expect(await endOf(limit)).toBeUndefined()
  },
)
