import type { Database, Statement } from 'better-sqlite3'
import { openSnapshot } from '../storage/database.ts'
import type { PlantQuery, StoredPlant } from './plant.ts'

/** A plant as the database keeps it. */
export interface PlantRow {
  readonly account: number
  readonly id: number
  readonly name: string
  readonly tag: string | null
}

interface GrantRow {
  readonly owner: number
  readonly tag: string
}

/** An account that lets another one see its plants: all of them where there are no tags, else those with one of these. */
export interface Sharer {
  readonly account: number
  readonly tags: readonly string[] | undefined
}

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
    const owners = Map.groupBy(this.#grants.all(account), ({ owner }) => owner)
    return [...owners].map(([owner, grants]) => {
      const tags = grants.map(({ tag }) => tag)
      return { account: owner, tags: tags.includes('') ? undefined : tags }
    })
  }

  /** At most `limit` plants in order: the account's own first, then those of its sharers. */
  read(account: number, sharers: readonly Sharer[], query: PlantQuery, limit: number): readonly StoredPlant[] {
    const { tag, after } = query
    const isPastOwn = after !== undefined && after.account !== account
    const own = isPastOwn ? [] : this.#one(account, tag, after?.id, limit)
    if (sharers.length === 0 || own.length === limit) return own
    const pieces = [own]
    let left = limit - own.length
    for (const sharer of sharers) {
      if (left === 0) break
      if (isPastOwn && sharer.account < after.account) continue
      const piece = this.#shared(sharer, tag, sharer.account === after?.account ? after.id : undefined, left)
      pieces.push(piece)
      left -= piece.length
    }
    return pieces.flat()
  }

  #one(account: number, tag: string | undefined, afterId: number | undefined, limit: number): readonly StoredPlant[] {
    const after = afterId ?? Number.NEGATIVE_INFINITY
    const rows = tag === undefined ? this.#all.all(account, after, limit) : this.#tagged.all(account, tag, after, limit)
    return rows.map(toPlant)
  }

  #shared({ account, tags }: Sharer, tag: string | undefined, afterId: number | undefined, limit: number) {
    if (tags === undefined) return this.#one(account, tag, afterId, limit)
    if (tag !== undefined) return tags.includes(tag) ? this.#one(account, tag, afterId, limit) : []
    return this.#merged(account, tags, afterId, limit)
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

/** Milliseconds that a long list may take. */
const snapshotKeptFor = 600_000

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
    }, snapshotKeptFor)
    this.#timer.unref()
  }

  /** @throws Error when the time is over */
  pages(): PageReader {
    if (this.#isOver) throw new Error('the reader of a long list took longer than ten minutes')
    return this.#pages
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#database.close()
  }
}

/** The plant that a row stands for. */
export function toPlant({ account, id, name, tag }: PlantRow): StoredPlant {
  return tag === null ? { account, id, name } : { account, id, name, tag }
}
