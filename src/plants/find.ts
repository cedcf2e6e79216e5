import {
  joined,
  query,
  queryEach,
  rowOf,
  rowsOf,
  type Script,
  type Scripts,
  type Statement,
  sql,
} from '../storage/scripts.ts'
import { foldedColumns, type SearchedTexts } from './fold.ts'
import { type GrantRow, type IdRange, rangesOf, sharersOf } from './rows.ts'

/** The orders of a list; `-` stands for the reverse order. */
export const sorts = ['id', '-id', 'name', '-name', 'updated', '-updated'] as const
export type Sort = (typeof sorts)[number]

/** Which plants a search finds, and in which order. */
export interface Search {
  /** A part of the name, the tag, the species or the place, folded by `fold`. */
  readonly q?: string
  readonly tag?: string
  readonly place?: string
  readonly archived?: boolean
  readonly sort: Sort
}

/** A found plant with its place in the order of its account: first by `key`, then by `id`. */
export interface Found {
  readonly account: number
  /** The id, the folded name, or the time of the last change. */
  readonly key: string | number
  readonly id: number
}

/** A found plant, and the tags of which it must have one; undefined for any. */
export interface FoundPlant extends Found {
  readonly tags: readonly string[] | undefined
}

/** Found plants. */
export interface FoundPlants {
  readonly found: readonly FoundPlant[]
  readonly isMore: boolean
}

/**
 * Finds plants that an account sees: first its own plants in the order of the search, then those of each account that shares plants
 * with it. Accounts are read in portions, so that other requests run in between. A plant that is there all the time, and whose key
 * stays as it is, is found in exactly one page, whatever happens to other plants.
 * @param after only plants after this one
 * @param isOver whether nobody waits for the answer any more
 */
export async function findPlants(
  scripts: Scripts,
  account: number,
  search: Search,
  limit: number,
  after?: Found,
  isOver: () => boolean = () => false,
): Promise<FoundPlants> {
  const grants = await scripts.read(() =>
    query<GrantRow>('SELECT owner, tag FROM grants WHERE grantee = $1 ORDER BY owner, tag', account),
  )
  const { tag } = search
  const asked = { ...(tag === undefined ? {} : { tag }), ...(after && { after }) }
  const found: FoundPlant[] = []
  for (const range of rangesOf(account, sharersOf(grants), asked)) {
    if (found.length > limit || isOver()) break
    const from = range.account === after?.account ? after : undefined
    found.push(...(await findInRange(scripts, range, search, limit + 1 - found.length, from, isOver)))
  }
  return { found: found.slice(0, limit), isMore: found.length > limit }
}

/** A row of a found plant without its account. */
interface FoundRow {
  readonly id: number
  readonly key: string | number
}

/** At most `count` plants of one account. */
async function findInRange(
  scripts: Scripts,
  { account, tags }: IdRange,
  search: Search,
  count: number,
  after: Found | undefined,
  isOver: () => boolean,
): Promise<readonly FoundPlant[]> {
  const { q, sort } = search
  const by = sort.replace('-', '')
  if (q !== undefined || by === 'name') await foldOlder(scripts, account)
  const conditions = [sql`account = ${account}`, ...filtersOf(search, tags)]
  const isReversed = sort.startsWith('-')
  // Names without a filter are read from their index. An expression keeps SQLite from this index where it would be slow.
  const isIndexed = by === 'name' && conditions.length === 1
  const key = by === 'id' ? sql`id` : by === 'updated' ? sql`updated` : isIndexed ? sql`folded` : sql`folded || ''`
  const part = { account, conditions, key, isReversed, count, after }
  const rows = isIndexed
    ? await scripts.readPortion(() => readPart(part))
    : await (by === 'id' ? readInOrder : readAll)(scripts, part, isOver)
  return rows.map(({ id, key: of }) => ({ account, id, key: of, tags }))
}

/** The conditions of a search. @param tags the tags of which a plant must have one; undefined for any */
function filtersOf({ q, place, archived }: Search, tags: readonly string[] | undefined): readonly Statement[] {
  const filters: Statement[] = []
  const values = (tags ?? []).map((tag) => sql`${tag}`)
  if (tags) filters.push(sql`tag IN (${joined(values, ', ')})`)
  // LIKE takes the product of both lengths: 80 times as long in texts of one repeated letter.
  if (q !== undefined) filters.push(sql`replace(found, ${q}, '') <> found`)
  if (place !== undefined) filters.push(sql`place = ${place}`)
  if (archived !== undefined) filters.push(sql`archived = ${archived ? 1 : 0}`)
  return filters
}

/** A part of a search: some plants of one account. */
interface Part {
  readonly account: number
  readonly conditions: readonly Statement[]
  /** The expression of `FoundRow.key`. */
  readonly key: Statement
  readonly isReversed: boolean
  /** The most plants. */
  readonly count: number
  readonly after: FoundRow | undefined
  readonly before?: FoundRow | undefined
}

/** The first plants of a part, in order. */
function readPart({ conditions, key, isReversed, count, after, before }: Part): Script<readonly FoundRow[]> {
  const [direction, beyond, ahead] = isReversed ? [sql`DESC`, sql`<`, sql`>`] : [sql`ASC`, sql`>`, sql`<`]
  const all = [
    ...conditions,
    ...(after ? [sql`(${key}, id) ${beyond} (${after.key}, ${after.id})`] : []),
    ...(before ? [sql`(${key}, id) ${ahead} (${before.key}, ${before.id})`] : []),
  ]
  return rowsOf<FoundRow>(sql`
    SELECT id, ${key} AS key FROM plants WHERE ${joined(all, ' AND ')}
    ORDER BY ${key} ${direction}, id ${direction} LIMIT ${count}`)
}

/** The plants of the first portion of a search. The time that a portion takes tells how many plants the next one has. */
const firstPortion = 200
const [fewestPerPortion, mostPerPortion] = [50, 3000]
/** How long a portion should take. Usual plants take SQLite a microsecond, and the longest texts 200. */
const portionMs = 3

/** The number of plants of the portion after one of `size` plants that took `ms` milliseconds. */
function nextSize(size: number, ms: number): number {
  const wanted = Math.min((size * portionMs) / ms, 4 * size)
  return Math.round(Math.max(fewestPerPortion, Math.min(wanted, mostPerPortion)))
}

interface Portion {
  /** The first plants of the portion, in the order of the part. */
  readonly rows: readonly FoundRow[]
  /** The last id of the portion; undefined in the last portion. */
  readonly to: number | undefined
  /** How many plants the next portion should look at. */
  readonly nextSize: number
}

/** Reads the next portion after an id. @param size how many plants to look at */
function* readPortion(part: Part, from: number | undefined, size: number): Script<Portion> {
  const { isReversed } = part
  const began = performance.now()
  const beyond = from === undefined ? [] : [isReversed ? sql`id < ${from}` : sql`id > ${from}`]
  const last = yield* rowOf<{ id: number }>(sql`
    SELECT id FROM plants WHERE ${joined([sql`account = ${part.account}`, ...beyond], ' AND ')}
    ORDER BY id ${isReversed ? sql`DESC` : sql`ASC`} LIMIT 1 OFFSET ${size - 1}`)
  const upTo = last ? [isReversed ? sql`id >= ${last.id}` : sql`id <= ${last.id}`] : []
  const rows = yield* readPart({ ...part, conditions: [...part.conditions, ...beyond, ...upTo] })
  return { rows, to: last?.id, nextSize: nextSize(size, performance.now() - began) }
}

/** Reads a part in the order of ids, until it is full. */
async function readInOrder(scripts: Scripts, part: Part, isOver: () => boolean): Promise<readonly FoundRow[]> {
  const rows: FoundRow[] = []
  let from = part.after?.id
  let size = firstPortion
  do {
    const [before, asked] = [from, size]
    const rest = { ...part, after: undefined, count: part.count - rows.length }
    const portion = await scripts.readPortion(() => readPortion(rest, before, asked))
    rows.push(...portion.rows)
    from = portion.to
    size = portion.nextSize
  } while (from !== undefined && rows.length < part.count && !isOver())
  return rows
}

/** Reads all plants of a part, and keeps the first in the order of the search. */
async function readAll(scripts: Scripts, part: Part, isOver: () => boolean): Promise<readonly FoundRow[]> {
  const sign = part.isReversed ? -1 : 1
  let rows: readonly SortedRow[] = []
  let from: number | undefined
  let size = firstPortion
  do {
    // Only plants before the last of these can be among the first.
    const before = rows.length < part.count ? undefined : rows.at(-1)
    const [next, asked] = [from, size]
    const portion = await scripts.readPortion(() => readPortion({ ...part, before }, next, asked))
    const found = portion.rows.map((row) => ({ ...row, bytes: Buffer.from(`${row.key}`) }))
    rows = [...rows, ...found].sort((one, other) => sign * compare(one, other)).slice(0, part.count)
    from = portion.to
    size = portion.nextSize
  } while (from !== undefined && !isOver())
  return rows
}

interface SortedRow extends FoundRow {
  /** The bytes of the key: by them, both engines compare texts. */
  readonly bytes: Buffer
}

function compare(one: SortedRow, other: SortedRow): number {
  const isNumber = typeof one.key === 'number' && typeof other.key === 'number'
  return (isNumber ? Number(one.key) - Number(other.key) : one.bytes.compare(other.bytes)) || one.id - other.id
}

/** The plants that one transaction folds: this takes SQLite some 5 ms. */
const plantsPerFold = 200

/** Folds the names of plants that an older release has written. */
async function foldOlder(scripts: Scripts, account: number): Promise<void> {
  // With their ids alone, SQLite finds these plants in the index of names.
  const older = sql`SELECT id FROM plants WHERE account = ${account} AND folded IS NULL LIMIT ${plantsPerFold}`
  const species = sql`SELECT species FROM plant_details AS d WHERE d.account = plants.account AND d.plant = plants.id`
  while (await scripts.read(() => rowOf(older))) {
    await scripts.write(account, function* () {
      const rows = yield* rowsOf<SearchedTexts & { readonly id: number }>(sql`
        SELECT id, name, tag, place, (${species}) AS species FROM plants
        WHERE account = ${account} AND id IN (${older})`)
      yield* queryEach(
        'UPDATE plants SET folded = $3, found = $4 WHERE account = $1 AND id = $2',
        rows.map((row) => {
          const { folded, found } = foldedColumns(row)
          return [account, row.id, folded, found]
        }),
      )
    })
  }
}
