import type { Database, Statement } from 'better-sqlite3'
import { closeSnapshot, openSnapshot } from '../storage/snapshots.ts'
import { ConsecutiveIds } from './consecutive-ids.ts'
import { JoinedJson, type Piece } from './joined-json.ts'
import type { PlantPage, PlantQuery, Position } from './plant.ts'
import { type GrantRow, type IdRange, listTimedOut, maxListMs, rangesOf, type Sharer, sharersOf } from './rows.ts'

/** A plant with a tag, as its list shows it. */
interface TaggedRow {
  readonly id: number
  readonly json: string
}

/** How lists show a plant, as SQL: by the text that its row has, and with its id before that. */
const plain = 'json'
const withId = `'{"id":' || id || ',' || substr(json, 2)`

/**
 * Reads pages of plants by their place in the list, so that page a thousand costs what the first one does. To be called in
 * a transaction, since one page is several questions.
 */
export class PageReader {
  readonly #database: Database
  readonly #plants: RangeReader
  /** Made when somebody asks for ids: a long list has a reader of its own, and few want them. */
  #withIds: RangeReader | undefined
  readonly #grants: Statement<[number], GrantRow>

  constructor(database: Database) {
    this.#database = database
    this.#plants = new RangeReader(database, plain)
    this.#grants = database.prepare('SELECT owner, tag FROM grants WHERE grantee = ? ORDER BY owner, tag')
  }

  /** Who lets this account see plants, by account. */
  sharersWith(account: number): readonly Sharer[] {
    return sharersOf(this.#grants.all(account))
  }

  /** At most `limit` plants in order: the account's own first, then those of its sharers. */
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

  /** Reads a range as the account asked for it. */
  #readerOf(range: IdRange, account: number, { withIds }: PlantQuery): RangeReader {
    if (!withIds || range.account !== account) return this.#plants
    this.#withIds ??= new RangeReader(this.#database, withId)
    return this.#withIds
  }
}

/** Reads plants of one account. */
class RangeReader {
  readonly #joined: JoinedJson
  readonly #consecutive: ConsecutiveIds
  readonly #tagged: Statement<[number, string, number, number], TaggedRow>

  /** @param plant how a plant is shown, as SQL */
  constructor(database: Database, plant: string) {
    this.#joined = new JoinedJson(database, plant)
    this.#consecutive = new ConsecutiveIds(database, plant)
    // Left to itself SQLite takes the primary key, and looks through all plants of the account for a rare tag.
    this.#tagged = database.prepare(`
      SELECT id, ${plant} AS json FROM plants INDEXED BY plants_by_tag
      WHERE account = ? AND tag = ? AND id > ? ORDER BY id LIMIT ?`)
  }

  /** The first plants of a range, at most so many. */
  read({ account, tags, afterId = Number.NEGATIVE_INFINITY }: IdRange, limit: number): Piece {
    if (tags) return pieceOf(this.#merged(account, tags, afterId, limit + 1), limit)
    const guessed = this.#consecutive.read(account, afterId, limit)
    if (guessed) return guessed
    const counted = this.#joined.read(account, afterId, limit)
    this.#consecutive.learn(afterId, limit, counted)
    return counted
  }

  /** The plants with any of these tags, by id. Of all tags together it reads little more than it gives. */
  #merged(account: number, tags: readonly string[], afterId: number, limit: number): readonly TaggedRow[] {
    const [only] = tags
    if (tags.length === 1 && only !== undefined) return this.#tagged.all(account, only, afterId, limit)
    const atOnce = Math.ceil(limit / tags.length) + 1
    const heads = tags.map((tag) => {
      const plants = this.#each(account, tag, afterId, atOnce)
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

  /** The plants with this tag, by id, of which so many are read at once. */
  *#each(account: number, tag: string, afterId: number, atOnce: number): Generator<TaggedRow, undefined, undefined> {
    let from: number | undefined = afterId
    while (from !== undefined) {
      const plants: readonly TaggedRow[] = this.#tagged.all(account, tag, from, atOnce)
      yield* plants
      from = plants.length < atOnce ? undefined : plants.at(-1)?.id
    }
  }
}

/** JSON arrays as one. */
function joined(texts: readonly string[]): string {
  const [only] = texts
  if (texts.length === 1 && only !== undefined) return only
  return `[${texts.map((text) => text.slice(1, -1)).join(',')}]`
}

/** The first of these plants, of which one more was asked for. */
function pieceOf(rows: readonly TaggedRow[], limit: number): Piece {
  const shown = rows.slice(0, limit)
  const json = `[${shown.map((row) => row.json).join(',')}]`
  return { json, count: shown.length, lastId: shown.at(-1)?.id, isLonger: rows.length > limit }
}

/**
 * One moment of the plants, for ten minutes at most, which a reader may take that is as slow as it likes. A list that takes
 * longer is broken off. Where so much is written meanwhile that the log beside the file grows large (storage/wal.ts), it goes
 * on at the newest moment: what was there all the time is in it once, and what came or went meanwhile may be or not.
 */
export class ListSnapshot {
  readonly #database: Database
  readonly #pages: PageReader
  readonly #timer: NodeJS.Timeout
  #isOver = false

  constructor(path: string) {
    this.#database = openSnapshot(path)
    this.#pages = new PageReader(this.#database)
    this.#timer = setTimeout(() => {
      this.#isOver = true
      closeSnapshot(this.#database)
    }, maxListMs)
    this.#timer.unref()
  }

  /** @throws Error when the time is over */
  pages(): PageReader {
    if (this.#isOver) throw listTimedOut()
    return this.#pages
  }

  close(): void {
    clearTimeout(this.#timer)
    if (this.#database.open) closeSnapshot(this.#database)
  }
}
