import { randomUUID } from 'node:crypto'
import type { Database, Statement } from 'better-sqlite3'
import { type Actor, type AuditRecord, commandLine, type Recorder } from '../audit/record.ts'
import { writeRecord } from '../audit/sqlite.ts'
import type { OutsideChanges } from '../storage/caches.ts'
import { VersionedCache } from '../storage/caches.ts'
import { GroupCommit } from '../storage/group-commit.ts'
import { runInTurns, runLong } from '../storage/long-write.ts'
import { takeBriefly } from '../storage/prune.ts'
import { runScript, type Script } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'
import { addMany, checkMany } from './add-many.ts'
import { keptCursorKey } from './cursor.ts'
import { columnsOf, detailsRowOf, insertDetails, nextVersion } from './details.ts'
import { InFlightKeys } from './idempotency.ts'
import { removeOldReplies } from './kept-replies.ts'
import type {
  AddedPlant,
  Idempotency,
  ManyAdded,
  ManyPlants,
  PagesOf,
  PlantPage,
  PlantQuery,
  PlantStore,
  PlantsVersion,
  Share,
} from './plant.ts'
import { PlantCounts } from './plant-counts.ts'
import { checkPlantsLimit, idTaken, maxKeysOfRemoved, nextId, oldestValidKeySeconds, replayOf } from './policy.ts'
import { isByTag, type KeyedRow, pagesOf, type Sharer, toPlant, type VersionedRow } from './rows.ts'
import type { NewPlant } from './schemas.ts'
import { allShares, grant, revoke } from './shares.ts'
import { ListSnapshot, PageReader } from './sqlite-pages.ts'

/** The most plants that one turn of the event loop adds: some 2 ms. More are added in a long transaction. */
const maxPlantsInTurn = 200

/** Plants in SQLite. */
export class SqlitePlantStore implements PlantStore {
  readonly #database: Database
  readonly #insert: Statement<(number | string | null)[]>
  readonly #highestId: Statement<[number], number | null>
  /**
   * The highest ids that the transaction with the number `#highestOf` has assigned. If each plant looked for its id,
   * `POST /plants` would cost 6 % more CPU time (bench/figures.md).
   */
  readonly #highest = new Map<number, number>()
  #highestOf = 0
  readonly #byId: Statement<[number, number], VersionedRow>
  readonly #delete: Statement<[number, number]>
  readonly #pages: PageReader
  readonly #readPage: PageReader['read']
  readonly #keyed: Statement<[number, string, number], KeyedRow>
  readonly #keepKey: Statement<[number, string, string, number, string, string | null, number]>
  readonly #markKeys: Statement<[number, number]>
  readonly #forgetKeys: Statement<[number, number]>
  readonly #oldKey: Statement<[number, number]>
  readonly #removeExpiredKeys: Statement<[number, number]>
  readonly #commit: GroupCommit
  /** Commits removals of expired idempotency keys, without fsync: after a power cut, keys may have to be removed again. */
  readonly #cleaning: GroupCommit
  readonly #changes: OutsideChanges
  /** A part of each version. It is different in each process, because the counts in `#versions` start at 0 in each process. */
  readonly #epoch = randomUUID().slice(0, 8)
  readonly #versions = new Map<number, number>()
  /** A cache of the accounts that share plants with each account: every list needs these accounts. */
  readonly #sharers: VersionedCache<readonly Sharer[]>
  /** How often this process has changed shares. */
  #shareChanges = 0
  readonly #counts: PlantCounts
  readonly #running = new InFlightKeys()

  constructor(database: Database, commit: GroupCommit, changes: OutsideChanges) {
    this.#database = database
    this.#commit = commit
    this.#cleaning = new GroupCommit(database, 'NORMAL')
    this.#changes = changes
    this.#keyed = database.prepare(
      'SELECT request, plant, created FROM idempotency_keys WHERE account = ? AND key = ? AND created >= ?',
    )
    // An existing row with the same key is older than a day, so it is replaced.
    this.#keepKey = database.prepare(`
      INSERT OR REPLACE INTO idempotency_keys (account, key, request, plant, name, tag, created)
      VALUES (?, ?, ?, ?, ?, ?, ?)`)
    this.#markKeys = database.prepare('UPDATE idempotency_keys SET removed = 1 WHERE account = ? AND plant = ?')
    this.#forgetKeys = database.prepare(`
      DELETE FROM idempotency_keys WHERE (account, key) IN (
        SELECT account, key FROM idempotency_keys WHERE account = ? AND removed = 1
        ORDER BY created DESC, plant DESC LIMIT -1 OFFSET ?)`)
    this.#oldKey = database.prepare(`
      SELECT 1 WHERE EXISTS (SELECT 1 FROM idempotency_keys WHERE created < ?)
        OR EXISTS (SELECT 1 FROM kept_replies WHERE created < ?)`)
    this.#removeExpiredKeys = database.prepare(`
      DELETE FROM idempotency_keys WHERE (account, key) IN
        (SELECT account, key FROM idempotency_keys WHERE created < ? ORDER BY created LIMIT ?)`)
    this.#insert = database.prepare(`
      INSERT INTO plants (account, id, name, tag, place, archived, folded, found, created, updated, version)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
    this.#highestId = database.prepare<[number], number | null>('SELECT max(id) FROM plants WHERE account = ?').pluck()
    this.#byId = database.prepare('SELECT account, id, name, tag, version FROM plants WHERE account = ? AND id = ?')
    this.#delete = database.prepare('DELETE FROM plants WHERE account = ? AND id = ?')
    this.#pages = new PageReader(database)
    this.#readPage = database.transaction((...asked: Parameters<PageReader['read']>) => this.#pages.read(...asked))
    this.#sharers = new VersionedCache(changes)
    this.#counts = new PlantCounts(database, commit, changes)
  }

  create(account: number, plant: NewPlant, idempotency?: Idempotency, limit?: number): Promise<AddedPlant> {
    if (!idempotency) return this.#commitWithin(account, limit, () => this.#add(account, plant, unixSeconds(), limit))
    return this.#running.run(account, idempotency, () =>
      this.#commitWithin(account, limit, () => this.#addOnce(account, plant, idempotency, limit)),
    )
  }

  /** Commits a write. If the account has a limit and no valid count, its plants are counted first. */
  async #commitWithin<T>(account: number, limit: number | undefined, write: () => T): Promise<T> {
    const counting = limit === undefined ? undefined : this.#counts.load(account)
    // Only a write that needs a new count waits here. All other writes keep their order.
    if (counting) await counting
    return this.#commit.run(write)
  }

  async createMany(many: ManyPlants): Promise<ManyAdded> {
    const { account, plants, importedBy } = many
    await this.#counts.load(account)
    const records: AuditRecord[] = []
    const count = () => this.#countScript(account)
    const counts = this.#counts
    const add = function* (database: Database): Script<ManyAdded> {
      const added = yield* addMany(many, { count, record: recorderOn(database, records) })
      // Before the commit: writes that wait for its end read this count, and who counts after it counts these plants too.
      if (!added.isReplay) for (const { id } of added.plants) counts.adjust(account, id, 1)
      return added
    }
    const note = (added: ManyAdded): ManyAdded => {
      this.#touch(account)
      this.#highest.delete(account)
      return added
    }
    const addLong = () =>
      runLong(this.#database, add).catch((error: unknown) => {
        counts.forget(account)
        throw error
      })
    const added =
      plants.length > maxPlantsInTurn
        ? note(await addLong())
        : await this.#commit.run(() => note(runScript(this.#database, add(this.#database))))
    for (const record of records) importedBy?.onRecord?.(record)
    return added
  }

  async checkMany(many: ManyPlants): Promise<void> {
    const { account } = many
    await this.#counts.load(account)
    await runInTurns(this.#database, checkMany(many, { count: () => this.#countScript(account) }))
  }

  // biome-ignore lint/correctness/useYield: the count is in memory.
  *#countScript(account: number): Script<number> {
    return this.#counts.of(account)
  }

  async removeExpiredKeys(before: number, maxRows: number): Promise<number> {
    // If there is nothing to remove, the write lock is not taken.
    if (!this.#oldKey.get(before, before)) return 0
    return await this.#cleaning.run(() =>
      takeBriefly(maxRows, (count) => {
        const { changes } = this.#removeExpiredKeys.run(before, count)
        return changes + runScript(this.#database, removeOldReplies(before, count - changes))
      }),
    )
  }

  cursorKey(): Promise<Buffer> {
    return this.#commit.run(() => runScript(this.#database, keptCursorKey()))
  }

  version(account: number): PlantsVersion | null {
    const sharers = this.#sharersWith(account)
    if (sharers.some(isByTag)) return null
    let count = this.#versions.get(account) ?? 0
    // While no share changes, the sum is over the same accounts, and each count only grows, so a sum never repeats.
    for (const sharer of sharers) count += this.#versions.get(sharer.account) ?? 0
    // The version names the account: a client with keys of two accounts and one cache must not get a 304 for the other account.
    return `${this.#epoch}.${account}.${this.#changes.version()}.${this.#shareChanges}.${count}`
  }

  async fetchVersion(account: number): Promise<PlantsVersion | null> {
    return this.version(account)
  }

  async find(account: number, id: number) {
    const row = this.#byId.get(account, id)
    return row && { ...toPlant(row), version: row.version }
  }

  count(account: number, enough = Number.POSITIVE_INFINITY): Promise<number> {
    return this.#counts.countUpTo(account, enough)
  }

  change<T>(account: number, script: () => Script<T>): Promise<T> {
    return this.#commit.run(() => {
      this.#touch(account)
      // The script may have added plants: the highest id is read again.
      this.#highest.delete(account)
      return runScript(this.#database, script())
    })
  }

  remove(account: number, id: number, check?: (version: number) => void): Promise<boolean> {
    return this.#commit.run(() => {
      const row = check && this.#byId.get(account, id)
      if (row) check?.(row.version)
      this.#touch(account)
      this.#highest.delete(account)
      const { changes } = this.#delete.run(account, id)
      if (changes === 0) return false
      this.#counts.adjust(account, id, -1)
      if (this.#markKeys.run(account, id).changes > 0) this.#forgetKeys.run(account, maxKeysOfRemoved)
      return true
    })
  }

  async list(account: number, query: PlantQuery, limit: number): Promise<PlantPage> {
    const sharers = this.#sharersWith(account)
    return this.#readPage(account, sharers, query, limit)
  }

  async *listLong<T>(
    account: number,
    query: PlantQuery,
    use: (pages: PagesOf) => AsyncIterable<T>,
    limit = Number.POSITIVE_INFINITY,
  ): AsyncIterable<T> {
    // A long list has a connection of its own, which takes some 2 MB. It keeps one snapshot while the other connection writes.
    const snapshot = new ListSnapshot(this.#database.name)
    try {
      const sharers = snapshot.pages().sharersWith(account)
      yield* use(() => pagesOf(query, limit, (from, length) => snapshot.pages().read(account, sharers, from, length)))
    } finally {
      snapshot.close()
    }
  }

  share(account: number, grantee: number, tag?: string, by = commandLine): Promise<boolean> {
    return this.#changeShares(by, (record) => grant({ account, grantee, tag }, by, record))
  }

  unshare(account: number, grantee: number, tag?: string, by = commandLine): Promise<boolean> {
    return this.#changeShares(by, (record) => revoke({ account, grantee, tag }, by, record))
  }

  async shares(): Promise<readonly Share[]> {
    return runScript(this.#database, allShares())
  }

  async #changeShares(by: Actor, change: (record: Recorder) => Script<boolean>): Promise<boolean> {
    const database = this.#database
    const records: AuditRecord[] = []
    const record = recorderOn(database, records)
    const hasChanged = await this.#commit.run(() => {
      this.#shareChanges++
      this.#sharers.forget()
      return runScript(database, change(record))
    })
    for (const each of records) by.onRecord?.(each)
    return hasChanged
  }

  #sharersWith(account: number): readonly Sharer[] {
    const question = String(account)
    return this.#sharers.get(question) ?? this.#sharers.set(question, this.#pages.sharersWith(account))
  }

  #add(account: number, plant: NewPlant, now: number, limit?: number): AddedPlant {
    if (limit !== undefined) checkPlantsLimit(limit, this.#counts.of(account))
    const id = plant.id ?? this.#nextId(account)
    const { name, tag, place, archived, folded, found } = columnsOf(plant)
    const values = [account, id, name, tag, place, archived, folded, found, now, now, nextVersion()]
    const { changes } = this.#insert.run(...values)
    if (changes === 0) throw idTaken(id)
    const added = { ...plant, account, id }
    if (detailsRowOf(plant)) runScript(this.#database, insertDetails(account, [added]))
    if (plant.id === undefined) this.#highest.set(account, id)
    else this.#highest.delete(account)
    this.#touch(account)
    this.#counts.adjust(account, id, 1)
    return { plant: added, created: now, isReplay: false }
  }

  /** @throws ApiError 409 when there is no higher id */
  #nextId(account: number): number {
    if (this.#highestOf !== this.#commit.transaction) this.#highest.clear()
    this.#highestOf = this.#commit.transaction
    return nextId(this.#highest.get(account) ?? this.#highestId.get(account) ?? 0)
  }

  #addOnce(account: number, plant: NewPlant, idempotency: Idempotency, limit?: number): AddedPlant {
    const { key, request } = idempotency
    const now = unixSeconds()
    const first = this.#keyed.get(account, key, oldestValidKeySeconds(now))
    if (first) return replayOf(account, first, idempotency, plant)
    const added = this.#add(account, plant, now, limit)
    this.#keepKey.run(account, key, request, added.plant.id, plant.name, plant.tag ?? null, now)
    return added
  }

  /** Renews the account's version before the commit. If the commit fails, cached pages are read again without need: no harm. */
  #touch(account: number): void {
    this.#versions.set(account, (this.#versions.get(account) ?? 0) + 1)
  }
}

/** Writes audit records in a transaction of this connection, and adds them to `records`. */
function recorderOn(database: Database, records: AuditRecord[]): Recorder {
  return function* (actor, entry) {
    yield () => records.push(writeRecord(database, actor, entry))
  }
}
