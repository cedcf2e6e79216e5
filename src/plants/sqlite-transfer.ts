import { dirname } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { Database, Statement } from 'better-sqlite3'
import { commandLine } from '../audit/record.ts'
import { withAuditRecords } from '../audit/sqlite.ts'
import { isServed } from '../storage/file-lock.ts'
import { GroupCommit } from '../storage/group-commit.ts'
import { closeSnapshot, openSnapshot } from '../storage/snapshots.ts'
import { automaticPages } from '../storage/wal.ts'
import { accountGone, isForeignKeyViolation } from '../storage/write-error.ts'
import { unixSeconds } from '../time.ts'
import { transferEntry } from './policy.ts'
import { type ExportSink, type PortablePlant, type PortableRow, TakenId, toPortable, toRow } from './portable.ts'
import { type ImportRow, importOf, type LinesRow } from './rows.ts'
import {
  type DeletionFile,
  type Import,
  type ImportKey,
  importChanged,
  noImport,
  type PlantTransfers,
} from './transfers.ts'

const plantsPerRead = 2000

/** The number of pages of 4 KiB in SQLite's log at which a checkpoint runs while no service runs. */
const aloneCheckpointPages = 8000

/** Exports and imports accounts of SQLite. */
export class SqliteTransfers implements PlantTransfers {
  /**
   * A writer that waits for SQLite's lock retries after 1, 3 and 8 ms. A batch takes about 4 ms, and a longer pause follows, so
   * one of these retries is in the pause.
   */
  readonly maxBatchMs = 4
  readonly #database: Database
  readonly #commit: GroupCommit
  /** Commits batches without fsync: a power cut may undo the latest batches and their progress, and the next run repeats them. */
  readonly #batches: GroupCommit
  readonly #insert: Statement<[number, number, string, string | null]>
  readonly #delete: Statement<[number, number, string, string | null]>
  readonly #byId: Statement<[number, number], PortableRow>

  constructor(database: Database, commit: GroupCommit) {
    this.#database = database
    this.#commit = commit
    this.#batches = new GroupCommit(database, 'NORMAL')
    this.#insert = database.prepare(
      'INSERT INTO plants (account, id, name, tag) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
    )
    this.#delete = database.prepare('DELETE FROM plants WHERE account = ? AND id = ? AND name = ? AND tag IS ?')
    this.#byId = database.prepare('SELECT id, name, tag FROM plants WHERE account = ? AND id = ?')
  }

  async isServiceRunning(): Promise<boolean> {
    const isFound = isServed(dirname(this.#database.name))
    // While no service runs, checkpoints are rare, so one checkpoint copies the pages that many batches have changed.
    this.#database.pragma(`wal_autocheckpoint = ${isFound ? automaticPages : aloneCheckpointPages}`)
    return isFound
  }

  async exportPlants(account: number, sink: ExportSink, by = commandLine): Promise<void> {
    withAuditRecords(this.#database, (record) =>
      record(by, transferEntry('account.exported', account, this.#nameOf(account))),
    )
    await this.copyPlants(account, sink)
  }

  async copyPlants(account: number, sink: ExportSink): Promise<void> {
    // The export has a connection of its own, which keeps one snapshot. SQLite's readers block no writer.
    const snapshot = openSnapshot(this.#database.name)
    try {
      const count = snapshot
        .prepare<[number], number>('SELECT count(*) FROM plants WHERE account = ?')
        .pluck()
        .get(account)
      sink.begin(count ?? 0)
      const page = snapshot.prepare<[number, number], LinesRow>(`
        SELECT max(id) AS last, CAST(group_concat(line, '') AS BLOB) AS lines FROM (
          SELECT id, '{"id":' || id || ',' || substr(json, 2) || char(10) AS line
          FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT ${plantsPerRead})`)
      let row = page.get(account, Number.MIN_SAFE_INTEGER - 1)
      while (row && row.last !== null) {
        sink.add(row.lines)
        await setImmediate()
        row = page.get(account, row.last)
      }
      sink.end()
    } finally {
      closeSnapshot(snapshot)
    }
  }

  async hasIdBetween(account: number, first: number, last: number): Promise<boolean> {
    const statement = this.#database.prepare('SELECT 1 FROM plants WHERE account = ? AND id BETWEEN ? AND ? LIMIT 1')
    return statement.get(account, first, last) !== undefined
  }

  async findByIds(account: number, plants: readonly PortablePlant[]): Promise<readonly PortablePlant[]> {
    return plants.flatMap(({ id }) => {
      const row = this.#byId.get(account, id)
      return row ? [toPortable(row)] : []
    })
  }

  async findImport({ account, digest }: ImportKey): Promise<Import | undefined> {
    const row = this.#database
      .prepare<[number, string], ImportRow>('SELECT * FROM imports WHERE account = ? AND digest = ?')
      .get(account, digest)
    return row && importOf(row)
  }

  async beginImport(
    { account, digest }: ImportKey,
    plants: number,
    highest: PortablePlant | undefined,
    by = commandLine,
  ): Promise<void> {
    try {
      withAuditRecords(this.#database, (record) => {
        this.#database
          .prepare('INSERT OR REPLACE INTO imports VALUES (?, ?, ?, 0, ?, 0, ?)')
          .run(account, digest, plants, highest?.id ?? null, unixSeconds())
        if (highest) this.#add(account, highest)
        record(by, transferEntry('account.imported', account, this.#nameOf(account), plants))
      })
    } catch (error) {
      throw isForeignKeyViolation(error) ? accountGone(error) : error
    }
  }

  async addPlants(
    { account, digest }: ImportKey,
    at: number,
    plants: readonly PortablePlant[],
    isLast: boolean,
  ): Promise<void> {
    const note = this.#database
      .prepare<[number, number, string, number], number | null>(`
        UPDATE imports SET done = ? WHERE account = ? AND digest = ? AND done = ? AND undoing = 0 RETURNING highest`)
      .pluck()
    const commit = isLast ? this.#commit : this.#batches
    await commit.run(() => {
      const highest = note.get(at + plants.length, account, digest, at)
      if (highest === undefined) throw importChanged()
      for (const plant of plants) {
        if (plant.id !== highest) this.#add(account, plant)
      }
    })
  }

  async beginUndo({ account, digest }: ImportKey, by = commandLine): Promise<Import> {
    return withAuditRecords(this.#database, (record) => {
      const row = this.#database
        .prepare<[number, string], ImportRow>('SELECT * FROM imports WHERE account = ? AND digest = ?')
        .get(account, digest)
      if (!row) throw noImport()
      this.#database.prepare('UPDATE imports SET undoing = 1 WHERE account = ? AND digest = ?').run(account, digest)
      const entry = () => transferEntry('account.import_undone', account, this.#nameOf(account), row.plants)
      if (row.undoing === 0) record(by, entry())
      return importOf(row)
    })
  }

  async endUndo({ account, digest }: ImportKey): Promise<void> {
    const forget = this.#database.prepare('DELETE FROM imports WHERE account = ? AND digest = ?')
    await this.#commit.run(() => void forget.run(account, digest))
  }

  removePlants(account: number, plants: readonly PortablePlant[]): Promise<number> {
    return this.#batches.run(() => {
      const remove = (sum: number, { id, name, tag }: PortableRow) =>
        sum + this.#delete.run(account, id, name, tag).changes
      return plants.map(toRow).reduce(remove, 0)
    })
  }

  removeKeys(account: number, maxKeys: number): Promise<number> {
    const remove = this.#database.prepare(
      'DELETE FROM idempotency_keys WHERE account = $account AND key IN (SELECT key FROM idempotency_keys WHERE account = $account LIMIT $maxKeys)',
    )
    return this.#batches.run(() => remove.run({ account, maxKeys }).changes)
  }

  async deletionFiles(account: number): Promise<readonly DeletionFile[]> {
    return this.#database
      .prepare<[number], { file: string; complete: number }>(
        'SELECT file, complete FROM deletions WHERE account = ? ORDER BY file',
      )
      .all(account)
      .map(({ file, complete }) => ({ path: file, isComplete: complete === 1 }))
  }

  async saveDeletionFile(account: number, { path, isComplete }: DeletionFile): Promise<void> {
    const keep = this.#database.prepare('INSERT OR REPLACE INTO deletions VALUES (?, ?, ?)')
    await this.#commit.run(() => void keep.run(account, path, Number(isComplete)))
  }

  async forgetDeletionFile(account: number, path: string): Promise<void> {
    const forget = this.#database.prepare('DELETE FROM deletions WHERE account = ? AND file = ?')
    await this.#commit.run(() => void forget.run(account, path))
  }

  /** Adds a plant. @throws TakenId when the id is taken; the caller must roll back the transaction */
  #add(account: number, { id, name, tag }: PortablePlant): void {
    if (this.#insert.run(account, id, name, tag ?? null).changes === 0) throw new TakenId(id)
  }

  /** @throws ApiError 403 when the account was deleted */
  #nameOf(account: number): string {
    const name = this.#database.prepare<[number], string>('SELECT name FROM accounts WHERE id = ?').pluck().get(account)
    if (name === undefined) throw accountGone(undefined)
    return name
  }
}

/** Removes an account's idempotency keys and grants in the caller's transaction. @returns false if the account has plants */
export function removeRest(database: Database, account: number): boolean {
  if (database.prepare('SELECT 1 FROM plants WHERE account = ? LIMIT 1').get(account)) return false
  database.prepare('DELETE FROM idempotency_keys WHERE account = ?').run(account)
  database.prepare('DELETE FROM grants WHERE owner = $account OR grantee = $account').run({ account })
  return true
}
