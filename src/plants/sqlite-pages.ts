import type { Database, Statement } from 'better-sqlite3'
import { closeSnapshot, openSnapshot } from '../storage/snapshots.ts'
import type { PlantPage, PlantQuery, Position } from './plant.ts'
import { type GrantRow, type IdRange, listTimedOut, maxListMs, rangesOf, type Sharer, sharersOf } from './rows.ts'

/** The plants of a page that come from one range. */
interface RangePart {
  /** The text of a JSON array. */
  readonly json: string
  readonly count: number
  /** The id of the last plant; may be undefined if the range has fewer plants than the limit. */
  readonly lastId: number | undefined
  /** Whether the range has more plants. */
  readonly isLonger: boolean
}

/** The plants between two ids as a JSON array, which is null without plants, and the number of these plants. */
interface BetweenRow {
  readonly json: string | null
  readonly count: number
}

/** A plant of a list by tag, as its JSON text. */
interface TaggedRow {
  readonly id: number
  readonly json: string
}

/** SQL for a plant's JSON: the text that its row stores, or that text with the id as the first property. */
const plain = 'json'
const withId = `'{"id":' || id || ',' || substr(json, 2)`

/**
 * Reads a page of plants after a position in the list, so page 1,000 costs as much as page 1. The caller must have a transaction
 * open, because one page takes several queries.
 */
export class PageReader {
  readonly #database: Database
  readonly #plants: RangeReader
  /** Made when a query first asks for ids: each long list has a `PageReader` of its own, and few lists need ids. */
  #withIds: RangeReader | undefined
  readonly #grants: Statement<[number], GrantRow>

  constructor(database: Database) {
    this.#database = database
    this.#plants = new RangeReader(database, plain)
    this.#grants = database.prepare('SELECT owner, tag FROM grants WHERE grantee = ? ORDER BY owner, tag')
  }

  /** The accounts that share plants with this account, sorted by id. */
  sharersWith(account: number): readonly Sharer[] {
    return sharersOf(this.#grants.all(account))
  }

  /** At most `limit` plants in order: the account's own plants first, then the plants of its sharers. */
  read(account: number, sharers: readonly Sharer[], query: PlantQuery, limit: number): PlantPage {
    const texts: string[] = []
    let left = limit
    let last: Position | undefined
    for (const range of rangesOf(account, sharers, query)) {
      const plants = this.#readerOf(range, account, query)
      if (last) {
        if (plants.read(range, 1).count > 0) return { json: joined(texts), last }
        continue
      }
      const { json, count, lastId, isLonger } = plants.read(range, left)
      if (count > 0) texts.push(json)
      left -= count
      if (left === 0 && lastId !== undefined) last = { account: range.account, id: lastId }
      if (last && isLonger) return { json: joined(texts), last }
    }
    return { json: joined(texts) }
  }

  /** The reader of a range: with ids only for the account's own plants. */
  #readerOf(range: IdRange, account: number, { withIds }: PlantQuery): RangeReader {
    if (!withIds || range.account !== account) return this.#plants
    this.#withIds ??= new RangeReader(this.#database, withId)
    return this.#withIds
  }
}

/**
 * Reads plants of one account. SQLite joins the stored texts of a page: if its rows were read one by one and joined here, a page of
 * 100 plants after a random id would cost 66 % more CPU time (bench/figures.md).
 */
class RangeReader {
  readonly #ends: Statement<[number, number, number], number>
  readonly #between: Statement<[number, number, number], BetweenRow>
  readonly #tagged: Statement<[number, string, number, number], TaggedRow>

  /** @param plant SQL for a plant's JSON */
  constructor(database: Database, plant: string) {
    this.#ends = database
      .prepare<[number, number, number], number>(
        'SELECT id FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT 2 OFFSET ?',
      )
      .pluck()
    // The scan of the primary key returns the rows by id. An ORDER BY in group_concat would sort again, and take twice as long.
    this.#between = database.prepare(`
      SELECT '[' || group_concat(${plant}, ',') || ']' AS json, count(*) AS count
      FROM plants NOT INDEXED WHERE account = ? AND id > ? AND id <= ?`)
    // Without INDEXED BY, SQLite uses the primary key, and reads all plants of the account to find a rare tag.
    this.#tagged = database.prepare(`
      SELECT id, ${plant} AS json FROM plants INDEXED BY plants_by_tag
      WHERE account = ? AND tag = ? AND id > ? ORDER BY id LIMIT ?`)
  }

  /** At most `limit` plants from the start of a range. */
  read({ account, tags, afterId = Number.NEGATIVE_INFINITY }: IdRange, limit: number): RangePart {
    if (tags) return partOf(this.#merged(account, tags, afterId, limit + 1), limit)
    const [lastId, nextId] = this.#ends.all(account, afterId, limit - 1)
    const found = this.#between.get(account, afterId, lastId ?? Number.POSITIVE_INFINITY)
    return { json: found?.json ?? '[]', count: found?.count ?? 0, lastId, isLonger: nextId !== undefined }
  }

  /** The plants with any of these tags, by id. Merges the lists of the tags, and reads few more plants than it returns. */
  #merged(account: number, tags: readonly string[], afterId: number, limit: number): readonly TaggedRow[] {
    const [only] = tags
    if (tags.length === 1 && only !== undefined) return this.#tagged.all(account, only, afterId, limit)
    const batchSize = Math.ceil(limit / tags.length) + 1
    const heads = tags.map((tag) => {
      const plants = this.#each(account, tag, afterId, batchSize)
      return { plants, next: plants.next().value }
    })
    const found: TaggedRow[] = []
    while (found.length < limit) {
      let first = heads[0]
      for (const head of heads) {
        if (head.next && (!first?.next || head.next.id < first.next.id)) first = head
      }
      if (!first?.next) break
      found.push(first.next)
      first.next = first.plants.next().value
    }
    return found
  }

  /** The plants with this tag, by id, read in batches of `batchSize`. */
  *#each(account: number, tag: string, afterId: number, batchSize: number): Generator<TaggedRow, undefined, undefined> {
    let from: number | undefined = afterId
    while (from !== undefined) {
      const plants: readonly TaggedRow[] = this.#tagged.all(account, tag, from, batchSize)
      yield* plants
      from = plants.length < batchSize ? undefined : plants.at(-1)?.id
    }
  }
}

function joined(texts: readonly string[]): string {
  const [only] = texts
  if (texts.length === 1 && only !== undefined) return only
  return `[${texts.map((text) => text.slice(1, -1)).join(',')}]`
}

/** The first `limit` of these plants. The caller has read one plant more, which shows whether the range is longer. */
function partOf(rows: readonly TaggedRow[], limit: number): RangePart {
  const shown = rows.slice(0, limit)
  const json = `[${shown.map((row) => row.json).join(',')}]`
  return { json, count: shown.length, lastId: shown.at(-1)?.id, isLonger: rows.length > limit }
}

/**
 * A snapshot of the plants for a long list, whose reader may be slow. After ten minutes the snapshot is closed, and the list
 * fails. If SQLite's log grows large meanwhile (storage/wal.ts), the snapshot moves to the newest state: plants that existed all
 * the time are in the list once, and plants that were added or removed meanwhile may be in the list or not.
 */
export class ListSnapshot {
  readonly #database: Database
  readonly #pages: PageReader
  readonly #timer: NodeJS.Timeout
  #hasTimedOut = false

  constructor(path: string) {
    this.#database = openSnapshot(path)
    this.#pages = new PageReader(this.#database)
    this.#timer = setTimeout(() => {
      this.#hasTimedOut = true
      closeSnapshot(this.#database)
    }, maxListMs)
    this.#timer.unref()
  }

  /** @throws Error when the snapshot has timed out */
  pages(): PageReader {
    if (this.#hasTimedOut) throw listTimedOut()
    return this.#pages
  }

  close(): void {
    clearTimeout(this.#timer)
    if (this.#database.open) closeSnapshot(this.#database)
  }
}
