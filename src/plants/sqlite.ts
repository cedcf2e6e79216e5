import { randomUUID } from 'node:crypto'
import type { Database, Statement } from 'better-sqlite3'
import { ApiError } from '../errors.ts'
import { openSnapshot } from '../storage/database.ts'
import type { GroupCommit } from '../storage/group-commit.ts'
import type { OutsideChanges } from '../storage/outside-changes.ts'
import {
  type AddedPlant,
  type Idempotency,
  idTaken,
  type NewPlant,
  noIdLeft,
  type PlantQuery,
  type PlantStore,
  type PlantsVersion,
  type StoredPlant,
} from './plant.ts'

interface PlantRow {
  readonly account: number
  readonly id: number
  readonly name: string
  readonly tag: string | null
}

interface KeyedRow {
  readonly request: string
  readonly plant: number
  readonly name: string
  readonly tag: string | null
}

/** Seconds for which an idempotency key is known. */
const keptFor = 24 * 60 * 60

/** How many plants one batch of a long list has: it holds the event loop for about half a millisecond. */
const batchSize = 500

/** Milliseconds that a long list may take. */
const snapshotKeptFor = 600_000

/** Plants in SQLite. */
export class SqlitePlantStore implements PlantStore {
  readonly #database: Database
  readonly #insert: Statement<[number, number, string, string | null]>
  readonly #highestIds: HighestIds
  readonly #byId: Statement<[number, number], PlantRow>
  readonly #delete: Statement<[number, number]>
  readonly #pages: PageReader
  readonly #keyed: Statement<[number, string], KeyedRow>
  readonly #keepKey: Statement<[number, string, string, number, string, string | null, number]>
  readonly #forgetKeys: Statement<[number]>
  readonly #commit: GroupCommit
  readonly #changes: OutsideChanges
  /** Differs from one process to the next, whose counts begin anew. */
  readonly #epoch = randomUUID().slice(0, 8)
  readonly #versions = new Map<number, number>()
  /** Accounts and idempotency keys of requests that have not been answered. */
  readonly #running = new Set<string>()

  constructor(database: Database, commit: GroupCommit, changes: OutsideChanges) {
    this.#database = database
    this.#commit = commit
    this.#changes = changes
    this.#keyed = database.prepare(
      'SELECT request, plant, name, tag FROM idempotency_keys WHERE account = ? AND key = ?',
    )
    this.#keepKey = database.prepare('INSERT INTO idempotency_keys VALUES (?, ?, ?, ?, ?, ?, ?)')
    this.#forgetKeys = database.prepare('DELETE FROM idempotency_keys WHERE created < ?')
    this.#insert = database.prepare(
      'INSERT INTO plants (account, id, name, tag) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
    )
    this.#highestIds = new HighestIds(database, commit)
    this.#byId = database.prepare('SELECT account, id, name, tag FROM plants WHERE account = ? AND id = ?')
    this.#delete = database.prepare('DELETE FROM plants WHERE account = ? AND id = ?')
    this.#pages = new PageReader(database)
  }

  create(account: number, plant: NewPlant, idempotency?: Idempotency): Promise<AddedPlant> {
    if (!idempotency) return this.#commit.run(() => ({ plant: this.#add(account, plant), isReplay: false }))
    const running = `${account} ${idempotency.key}`
    if (this.#running.has(running)) {
      throw new ApiError(
        409,
        'still_running',
        'The first request with this Idempotency-Key is still running. Wait for it.',
      )
    }
    this.#running.add(running)
    return this.#commit
      .run(() => this.#addOnce(account, plant, idempotency))
      .finally(() => this.#running.delete(running))
  }

  version(account: number): PlantsVersion {
    return `${this.#epoch}.${this.#changes.seen()}.${this.#versions.get(account) ?? 0}`
  }

  async find(account: number, id: number): Promise<StoredPlant | undefined> {
    const row = this.#byId.get(account, id)
    return row && toPlant(row)
  }

  remove(account: number, id: number): Promise<boolean> {
    return this.#commit.run(() => {
      this.#touch(account)
      this.#highestIds.forget(account)
      return this.#delete.run(account, id).changes > 0
    })
  }

  async list(account: number, query: PlantQuery, limit: number): Promise<readonly StoredPlant[]> {
    return this.#pages.read(account, query, limit)
  }

  async *listAll(account: number, query: PlantQuery): AsyncIterable<readonly StoredPlant[]> {
    // A connection of its own: a list that lasts keeps one snapshot while the other connection writes.
    const snapshot = new Snapshot(this.#database.name)
    try {
      let after = query.after
      for (;;) {
        const batch = snapshot.pages().read(account, { ...query, ...(after ? { after } : {}) }, batchSize)
        if (batch.length > 0) yield batch
        if (batch.length < batchSize) return
        after = batch.at(-1)
      }
    } finally {
      snapshot.close()
    }
  }

  #add(account: number, plant: NewPlant): StoredPlant {
    const id = plant.id ?? this.#highestIds.next(account)
    const { changes } = this.#insert.run(account, id, plant.name, plant.tag ?? null)
    if (changes === 0) throw idTaken(id)
    this.#highestIds.note(account, id)
    this.#touch(account)
    return { account, ...plant, id }
  }

  #addOnce(account: number, plant: NewPlant, { key, request }: Idempotency): AddedPlant {
    const now = Math.floor(Date.now() / 1000)
    this.#forgetKeys.run(now - keptFor)
    const first = this.#keyed.get(account, key)
    if (first && first.request !== request) {
      throw new ApiError(422, 'key_reused', 'This Idempotency-Key was used for another request. Send a new one.')
    }
    if (first) return { plant: toPlant({ account, id: first.plant, name: first.name, tag: first.tag }), isReplay: true }
    const added = this.#add(account, plant)
    this.#keepKey.run(account, key, request, added.id, added.name, added.tag ?? null, now)
    return { plant: added, isReplay: false }
  }

  /** Counts a change before it is committed: a reply made in between is made again, which does no harm. */
  #touch(account: number): void {
    this.#versions.set(account, (this.#versions.get(account) ?? 0) + 1)
  }
}

/** The highest id of each account, looked up once in a transaction however many plants it adds. */
class HighestIds {
  readonly #lookUp: Statement<[number], number | null>
  readonly #commit: GroupCommit
  readonly #known = new Map<number, number>()
  #transaction = 0

  constructor(database: Database, commit: GroupCommit) {
    this.#lookUp = database.prepare<[number], number | null>('SELECT max(id) FROM plants WHERE account = ?').pluck()
    this.#commit = commit
  }

  /**
   * The id for a new plant: one more than the highest, at least 1.
   * @throws ApiError 409 when none is left
   */
  next(account: number): number {
    if (this.#transaction !== this.#commit.transaction) this.#known.clear()
    this.#transaction = this.#commit.transaction
    const highest = this.#known.get(account) ?? this.#lookUp.get(account) ?? 0
    this.#known.set(account, highest)
    if (highest >= Number.MAX_SAFE_INTEGER) throw noIdLeft()
    return Math.max(highest, 0) + 1
  }

  /** A plant with this id was added. */
  note(account: number, id: number): void {
    const known = this.#transaction === this.#commit.transaction ? this.#known.get(account) : undefined
    if (known !== undefined && id > known) this.#known.set(account, id)
  }

  /** A plant of the account was removed, perhaps the one with the highest id. */
  forget(account: number): void {
    this.#known.delete(account)
  }
}

/**
 * One moment of the plants, for ten minutes at most: a snapshot holds up the cleaning of the database's log, and a reader
 * may be as slow as it likes. A list that takes longer is broken off, which its reader sees: it would show two moments.
 */
class Snapshot {
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

/** Reads pages of plants by their place in the list, so that page a thousand costs what the first one does. */
class PageReader {
  readonly #all: Statement<[number, number, number], PlantRow>
  readonly #tagged: Statement<[number, string, number, number], PlantRow>

  constructor(database: Database) {
    this.#all = database.prepare(
      'SELECT account, id, name, tag FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT ?',
    )
    this.#tagged = database.prepare(
      'SELECT account, id, name, tag FROM plants WHERE account = ? AND tag = ? AND id > ? ORDER BY id LIMIT ?',
    )
  }

  read(account: number, { tag, after }: PlantQuery, limit: number): readonly StoredPlant[] {
    const afterId = after?.id ?? Number.NEGATIVE_INFINITY
    const rows =
      tag === undefined ? this.#all.all(account, afterId, limit) : this.#tagged.all(account, tag, afterId, limit)
    return rows.map(toPlant)
  }
}

function toPlant({ account, id, name, tag }: PlantRow): StoredPlant {
  return tag === null ? { account, id, name } : { account, id, name, tag }
}
