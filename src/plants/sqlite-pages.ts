import type { Database, Statement } from 'better-sqlite3'
import { closeSnapshot, openSnapshot } from '../storage/snapshots.ts'
import type { PlantPage, PlantQuery, Position } from './plant.ts'
import { type GrantRow, longestList, type Sharer, type Stretch, sharersOf, stretchesOf, tookTooLong } from './rows.ts'

/** Plants between two ids, as a JSON array where there are any, and how many they are. */
interface BetweenRow {
  readonly json: string | null
  readonly count: number
}

/** The same, the last of them, and whether the account has plants behind them. */
interface ConsecutiveRow extends BetweenRow {
  readonly lastId: number | null
  readonly isLonger: 0 | 1
}

/** A plant with a tag, as its list shows it. */
interface TaggedRow {
  readonly id: number
  readonly json: string
}

/** What a page takes of a stretch. */
interface Piece {
  readonly json: string
  readonly count: number
  /** The id of the last plant; where there are not as many as were asked for nobody needs it. */
  readonly lastId: number | undefined
  /** Whether the stretch has more. */
  readonly isLonger: boolean
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
  readonly #plants: StretchReader
  /** Made when somebody asks for ids: a long list has a reader of its own, and few want them. */
  #withIds: StretchReader | undefined
  readonly #grants: Statement<[number], GrantRow>

  constructor(database: Database) {
    this.#database = database
    this.#plants = new StretchReader(database, plain)
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
    for (const stretch of stretchesOf(account, sharers, query)) {
      const plants = this.#readerOf(stretch, account, query)
      if (last) {
        if (plants.read(stretch, 1).count > 0) return { json: joined(texts), last }
        continue
      }
      const { json, count, lastId, isLonger } = plants.read(stretch, left)
      if (count > 0) texts.push(json)
      left -= count
      if (left === 0 && lastId !== undefined) last = { account: stretch.account, id: lastId }
      if (last && isLonger) return { json: joined(texts), last }
    }
    return { json: joined(texts) }
  }

  /** Reads a stretch as the account asked for it. */
  #readerOf(stretch: Stretch, account: number, { withIds }: PlantQuery): StretchReader {
    if (!withIds || stretch.account !== account) return this.#plants
    this.#withIds ??= new StretchReader(this.#database, withId)
    return this.#withIds
  }
}

/** Reads plants of one account. */
class StretchReader {
  readonly #ends: Statement<[number, number, number], number>
  readonly #between: Statement<[number, number, number], BetweenRow>
  readonly #consecutive: Statement<[number, number, number, number, number], ConsecutiveRow>
  readonly #tagged: Statement<[number, string, number, number], TaggedRow>

  /** Whether the last page that was counted out had consecutive ids. */
  #isConsecutive = false

  /** @param plant how a plant is shown, as SQL */
  constructor(database: Database, plant: string) {
    this.#ends = database
      .prepare<[number, number, number], number>(
        'SELECT id FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT 2 OFFSET ?',
      )
      .pluck()
    // One text of all rows takes half as long as the rows. The primary key brings them by id: told to sort them, SQLite
    // would take as long once more for what is in order already.
    this.#between = database.prepare(`
      SELECT '[' || group_concat(${plant}, ',') || ']' AS json, count(*) AS count
      FROM plants NOT INDEXED WHERE account = ? AND id > ? AND id <= ?`)
    this.#consecutive = database.prepare(`
      SELECT '[' || group_concat(${plant}, ',') || ']' AS json, count(*) AS count, max(id) AS lastId,
        EXISTS (SELECT 1 FROM plants WHERE account = ? AND id > ?) AS isLonger
      FROM plants NOT INDEXED WHERE account = ? AND id > ? AND id <= ?`)
    // Left to itself SQLite takes the primary key, and looks through all plants of the account for a rare tag.
    this.#tagged = database.prepare(`
      SELECT id, ${plant} AS json FROM plants INDEXED BY plants_by_tag
      WHERE account = ? AND tag = ? AND id > ? ORDER BY id LIMIT ?`)
  }

  /** The first plants of a stretch, at most so many. */
  read({ account, tags, afterId = Number.NEGATIVE_INFINITY }: Stretch, limit: number): Piece {
    if (tags) return pieceOf(this.#merged(account, tags, afterId, limit + 1), limit)
    const isGuess = this.#isConsecutive && Number.isFinite(afterId)
    const guessed = isGuess ? this.#guessed(account, afterId, limit) : undefined
    if (guessed) return guessed
    const [lastId, nextId] = this.#ends.all(account, afterId, limit - 1)
    const { json, count } = this.#between.get(account, afterId, lastId ?? Number.POSITIVE_INFINITY) ?? nothing
    if (Number.isFinite(afterId)) this.#isConsecutive = lastId === afterId + limit
    return { json: json ?? '[]', count, lastId, isLonger: nextId !== undefined }
  }

  /**
   * The piece that there is if ids are consecutive, as those are that the service gives: then nobody need count out where
   * it ends, which takes as long as reading it. Undefined where they are not.
   */
  #guessed(account: number, afterId: number, limit: number): Piece | undefined {
    const end = afterId + limit
    const { json, count, lastId, isLonger } = this.#consecutive.get(account, end, account, afterId, end) ?? nothing
    if (count < limit && isLonger === 1) return undefined
    return { json: json ?? '[]', count, lastId: lastId ?? undefined, isLonger: isLonger === 1 }
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

const nothing: ConsecutiveRow = { json: null, count: 0, lastId: null, isLonger: 0 }

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
export class Snapshot {
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
    }, longestList)
    this.#timer.unref()
  }

  /** @throws Error when the time is over */
  pages(): PageReader {
    if (this.#isOver) throw tookTooLong()
    return this.#pages
  }

  close(): void {
    clearTimeout(this.#timer)
    if (this.#database.open) closeSnapshot(this.#database)
  }
}
