import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { changePlant, insertPlants } from '../../src/plants/details.ts'
import { type Found, findPlants, type Search, sorts } from '../../src/plants/find.ts'
import { fold } from '../../src/plants/fold.ts'
import type { PlantStore } from '../../src/plants/plant.ts'
import type { NewPlant } from '../../src/plants/schemas.ts'
import { query, type Scripts } from '../../src/storage/scripts.ts'
import { engines, type TestDatabase } from '../support/engines.ts'

/** A plant of the model. */
interface Grown extends NewPlant {
  readonly account: number
  readonly id: number
  readonly updated: number
}

const texts = [
  'Monstera',
  'MONSTERA',
  'monstera ',
  'Straße',
  'strasse',
  'ﬁg',
  'Ähre',
  '\u{1f335}',
  '\uffee',
  'a%b_c\\d',
  'x',
]
const text = fc.oneof(fc.constantFrom(...texts.map((each) => each.trim())), fc.stringMatching(/^[a-cA-CéÉ]{1,3}$/))
const optional = (arbitrary: fc.Arbitrary<string>) => fc.option(arbitrary, { nil: undefined })
const tags = fc.constantFrom('aroid', 'tree', 'Ä')
const newPlant = fc.record(
  { name: text, tag: tags, species: text, place: text, archived: fc.constant(true) },
  { requiredKeys: ['name'] },
)
const search = fc.record({
  q: optional(fc.oneof(text, fc.constantFrom('o', 'S', '%', '_', '\\', 'ster'))),
  tag: optional(tags),
  place: optional(text),
  archived: fc.option(fc.boolean(), { nil: undefined }),
  sort: fc.constantFrom(...sorts),
})
type Asked = typeof search extends fc.Arbitrary<infer T> ? T : never

function searchOf({ q, tag, place, archived, sort }: Asked): Search {
  return {
    ...(q === undefined ? {} : { q: fold(q) }),
    ...(tag === undefined ? {} : { tag }),
    ...(place === undefined ? {} : { place }),
    ...(archived === undefined ? {} : { archived }),
    sort,
  }
}

function isFound({ name, tag, species, place, archived = false }: NewPlant, asked: Search): boolean {
  const isPart = [name, tag, species, place].some((each) => each !== undefined && fold(each).includes(asked.q ?? ''))
  return (
    isPart &&
    (asked.tag === undefined || tag === asked.tag) &&
    (asked.place === undefined || place === asked.place) &&
    (asked.archived === undefined || archived === asked.archived)
  )
}

/** The order of plants of one account. */
function inOrder(sort: Search['sort']): (one: Grown, other: Grown) => number {
  const sign = sort.startsWith('-') ? -1 : 1
  const keyOf = ({ id, name, updated }: Grown) =>
    sort.endsWith('name') ? fold(name) : sort.endsWith('updated') ? updated : id
  return (one, other) => {
    const [key, than] = [keyOf(one), keyOf(other)]
    const difference = typeof key === 'number' ? key - Number(than) : Buffer.from(key).compare(Buffer.from(`${than}`))
    return sign * (difference || one.id - other.id)
  }
}

async function findAll(scripts: Scripts, account: number, asked: Search, limit: number, between?: () => Promise<void>) {
  const all: Found[] = []
  for (let after: Found | undefined; ; ) {
    const { found, isMore } = await findPlants(scripts, account, asked, limit, after)
    expect(found.length).toBeLessThanOrEqual(limit)
    all.push(...found)
    after = found.at(-1)
    if (!isMore) return all
    expect(found.length).toBe(limit)
    await between?.()
  }
}

const keysOf = (plants: readonly { account: number; id: number }[]) => plants.map(({ account, id }) => [account, id])

describe.each(engines)('searches in $name', (engine) => {
  let database: TestDatabase
  let scripts: Scripts
  let store: PlantStore

  beforeAll(async () => {
    database = await engine.openDatabase()
    scripts = database.openScripts()
    store = database.openPlants()
  })
  afterAll(() => database.close())

  /** Adds plants with ids from 1 on, each some seconds later than the one before, or up to two at once. */
  async function grow(account: number, plants: readonly NewPlant[]): Promise<readonly Grown[]> {
    const grown = plants.map((plant, index) => ({ ...plant, account, id: index + 1, updated: 100 + ((index * 7) % 5) }))
    await scripts.write(account, function* () {
      for (const plant of grown) yield* insertPlants(account, [plant], plant.updated)
    })
    return grown
  }

  it('find what a model in memory finds, in the same order, in pages of any size, and of shares what they name', async () => {
    const garden = fc.array(newPlant, { maxLength: 12 })
    const share = fc.constantFrom<readonly string[]>([], [''], ['aroid'], ['aroid', 'tree'])
    await fc.assert(
      fc.asyncProperty(
        garden,
        garden,
        share,
        fc.array(search, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 1, max: 7 }),
        async (own, others, shares, searches, limit) => {
          const [account, owner] = [await database.newAccount(), await database.newAccount()]
          const mine = await grow(account, own)
          const theirs = await grow(owner, others)
          for (const tag of shares) await store.share(owner, account, tag || undefined)
          const shared = theirs.filter(({ tag }) => shares.includes('') || shares.includes(tag ?? 'none'))
          for (const asked of searches.map(searchOf)) {
            const expected = [mine, shared].flatMap((plants) =>
              plants.filter((plant) => isFound(plant, asked)).toSorted(inOrder(asked.sort)),
            )
            expect(keysOf(await findAll(scripts, account, asked, limit))).toEqual(keysOf(expected))
          }
        },
      ),
      { numRuns: engine.hasReplicas ? 30 : 100 },
    )
  })

  it('have each plant that stays as it is once, in order, while others come, change and go', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(newPlant, { minLength: 6, maxLength: 16 }),
        search,
        fc.infiniteStream(fc.tuple(fc.nat(20), newPlant)),
        async (plants, asked, changes) => {
          const account = await database.newAccount()
          const grown = await grow(account, plants)
          const touched = new Set<number>()
          const between = async () => {
            const [id, plant] = changes.next().value ?? [1, { name: 'x' }]
            touched.add(id)
            if (id % 3 === 0) await store.remove(account, id)
            else if (id <= grown.length && !touched.has(-id)) {
              const { name, place = null } = plant
              await store.change(account, () => changePlant(account, id, { name, place })).catch(() => undefined)
            } else await store.create(account, { ...plant, id: 1000 + touched.size })
          }
          const found = await findAll(scripts, account, searchOf(asked), 3, between)
          const steady = grown.filter(({ id }) => !touched.has(id))
          const expected = steady.filter((plant) => isFound(plant, searchOf(asked))).toSorted(inOrder(asked.sort))
          const ids = new Set(steady.map(({ id }) => id))
          expect(keysOf(found.filter(({ id }) => ids.has(id)))).toEqual(keysOf(expected))
        },
      ),
      { numRuns: engine.hasReplicas ? 20 : 100 },
    )
  })

  it('read large accounts in portions, in every order', async () => {
    const account = await database.newAccount()
    const count = 45_000
    await database.run(`
      INSERT INTO plants (account, id, name, folded, found, place, updated)
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
      SELECT ${account}, i, 'n' || ((i * 7919) % 45007), 'n' || ((i * 7919) % 45007), 'n' || ((i * 7919) % 45007),
        CASE i % 9000 WHEN 0 THEN 'rare' END, (i * 31) % 4999 FROM n`)
    const plants = Array.from({ length: count }, (_none, index): Grown => {
      const id = index + 1
      return {
        account,
        id,
        name: `n${(id * 7919) % 45_007}`,
        updated: (id * 31) % 4999,
        ...(id % 9000 === 0 && { place: 'rare' }),
      }
    })
    for (const sort of sorts) {
      const ordered = plants.toSorted(inOrder(sort))
      const { found } = await findPlants(scripts, account, { sort }, 5)
      expect(keysOf(found)).toEqual(keysOf(ordered.slice(0, 5)))
      const middle = found.at(-1)
      const rest = await findPlants(scripts, account, { sort, q: '99' }, 5, middle)
      expect(keysOf(rest.found)).toEqual(
        keysOf(
          ordered
            .slice(5)
            .filter(({ name }) => name.includes('99'))
            .slice(0, 5),
        ),
      )
      const rare = ordered.filter(({ place }) => place === 'rare')
      expect(keysOf(await findAll(scripts, account, { sort, place: 'rare' }, 2))).toEqual(keysOf(rare))
    }
    const stopped = await findPlants(scripts, account, { sort: 'id', place: 'rare' }, 5, undefined, () => true)
    expect(stopped).toEqual({ found: [], isMore: false })
  })

  it('fold the plants of an older release first, with what was added since', async () => {
    const account = await database.newAccount()
    await database.run(
      `INSERT INTO plants (account, id, name, tag) VALUES (${account}, 1, 'ÉTÉ', 'Ä'), (${account}, 2, 'b', NULL)`,
    )
    await store.create(account, { name: 'été', id: 3 })
    expect(keysOf(await findAll(scripts, account, { sort: 'name' }, 1))).toEqual([
      [account, 2],
      [account, 1],
      [account, 3],
    ])
    expect(keysOf(await findAll(scripts, account, { q: 'ä', sort: 'id' }, 5))).toEqual([[account, 1]])
    const left = await scripts.read(() => query('SELECT id FROM plants WHERE account = $1 AND folded IS NULL', account))
    expect(left).toEqual([])
  })
})
