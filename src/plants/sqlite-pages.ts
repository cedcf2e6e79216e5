import type { Database, Statement } from 'better-sqlite3'
import { openSnapshot } from '../storage/database.ts'
import type { PlantQuery, StoredPlant } from './plant.ts'
import {
  type GrantRow,
  longestList,
  type PlantRow,
  type Sharer,
  type Stretch,
  sharersOf,
  stretchesOf,
  tookTooLong,
  toPlant,
} from './rows.ts'

/** Reads pages of plants by their place in the list, so that page a thousand costs what the first one does. */
export class PageReader {
  readonly #all: Statement<[number, number, number], PlantRow>
  readonly #tagged: Statement<[number, string, number, number], PlantRow>
  readonly #grants: Statement<[number], GrantRow>

  constructor(database: Database) {
    this.#all = database.prepare(
      'SELECT account, id, name, tag FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT ?',
    )
    // Left to itself SQLite takes the primary key, and looks through all plants of the account for a rare tag.
    this.#tagged = database.prepare(`
      SELECT account, id, name, tag FROM plants INDEXED BY plants_by_tag
      WHERE account = ? AND tag = ? AND id > ? ORDER BY id LIMIT ?`)
    this.#grants = database.prepare('SELECT owner, tag FROM grants WHERE grantee = ? ORDER BY owner, tag')
  }

  /** Who lets this account see plants, by account. */
  sharersWith(account: number): readonly Sharer[] {
    return sharersOf(this.#grants.all(account))
  }

  /** At most `limit` plants in order: the account's own first, then those of its sharers. */
  read(account: number, sharers: readonly Sharer[], query: PlantQuery, limit: number): readonly StoredPlant[] {
    const pieces: (readonly StoredPlant[])[] = []
    let left = limit
    for (const stretch of stretchesOf(account, sharers, query)) {
      const piece = this.#stretch(stretch, left)
      pieces.push(piece)
      left -= piece.length
      if (left === 0) break
    }
    return pieces.length === 1 && pieces[0] ? pieces[0] : pieces.flat()
  }

  #stretch({ account, tags, afterId }: Stretch, limit: number): readonly StoredPlant[] {
    if (tags === undefined) return this.#one(account, undefined, afterId, limit)
    return tags.length === 1 ? this.#one(account, tags[0], afterId, limit) : this.#merged(account, tags, afterId, limit)
  }

  #one(account: number, tag: string | undefined, afterId: number | undefined, limit: number): readonly StoredPlant[] {
    const after = afterId ?? Number.NEGATIVE_INFINITY
    const rows = tag === undefined ? this.#all.all(account, after, limit) : this.#tagged.all(account, tag, after, limit)
    return rows.map(toPlant)
  }

  /** The plants with any of these tags, by id. Of all tags together it reads little more than it gives. */
  #merged(account: number, tags: readonly string[], afterId: number | undefined, limit: number) {
    const atOnce = Math.ceil(limit / tags.length) + 1
    const heads = tags.map((tag) => {
      const plants = this.#each(account, tag, afterId, atOnce)
      return { plants, next: plants.next().value }
    })
    const found: StoredPlant[] = []
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
  *#each(
    account: number,
    tag: string,
    afterId: number | undefined,
    atOnce: number,
  ): Generator<StoredPlant, undefined, undefined> {
    let from = afterId
    for (;;) {
      const plants = this.#one(account, tag, from, atOnce)
      yield* plants
      if (plants.length < atOnce) return undefined
      from = plants.at(-1)?.id
    }
  }
}

/**
 * One moment of the plants, for ten minutes at most: a snapshot holds up the cleaning of the database's log, and a reader
 * may be as slow as it likes. A list that takes longer is broken off, which its reader sees: it would show two moments.
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
      this.#database.close()
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
    this.#database.close()
  }
}
