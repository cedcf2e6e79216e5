import { dirname } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { Database } from 'better-sqlite3'
import type { Recorder } from '../audit/record.ts'
import { runAudited } from '../audit/sqlite.ts'
import { isServed } from '../storage/file-lock.ts'
import { GroupCommit } from '../storage/group-commit.ts'
import { queryEach, runScript, type Script } from '../storage/scripts.ts'
import { closeSnapshot, openSnapshot } from '../storage/snapshots.ts'
import { automaticPages } from '../storage/wal.ts'
import type { ExportQuery } from './belongings.ts'
import { type PortablePlant, type PortableRow, portableColumns, portableTables } from './rows.ts'
import { insertedOf, PlantTransfers, type ReadSnapshot } from './transfers.ts'

/** The number of pages of 4 KiB in SQLite's log at which a checkpoint runs while no service runs. */
const aloneCheckpointPages = 8000

/** Exports and imports accounts of SQLite. SQLite has one writer at a time, so rows need no locks. */
export class SqliteTransfers extends PlantTransfers {
  /**
   * A writer that waits for SQLite's lock retries after 1, 3 and 8 ms. A batch takes about 4 ms, and a longer pause follows, so
   * one of these retries is in the pause.
   */
  readonly maxBatchMs = 4
  readonly #database: Database
  /** Commits batches without fsync: a power cut may undo the latest batches and their progress, and the next run repeats them. */
  readonly #batches: GroupCommit

  constructor(database: Database) {
    super()
    this.#database = database
    this.#batches = new GroupCommit(database, 'NORMAL')
  }

  async isServiceRunning(): Promise<boolean> {
    const isFound = isServed(dirname(this.#database.name))
    // While no service runs, checkpoints are rare, so one checkpoint copies the pages that many batches have changed.
    this.#database.pragma(`wal_autocheckpoint = ${isFound ? automaticPages : aloneCheckpointPages}`)
    return isFound
  }

  protected async read<T>(script: () => Script<T>): Promise<T> {
    return runScript(this.#database, script())
  }

  protected async write<T>(script: (record: Recorder) => Script<T>): Promise<T> {
    return runAudited(this.#database, script)
  }

  protected writeBatch<T>(script: () => Script<T>): Promise<T> {
    return this.#batches.run(() => runScript(this.#database, script()))
  }

  protected *lock(): Script<void> {}

  protected *renewVersion(): Script<void> {}

  /** The snapshot has a connection of its own. SQLite's readers block no writer. */
  protected async withSnapshot(account: number, use: (read: ReadSnapshot) => Promise<void>): Promise<void> {
    const snapshot = openSnapshot(this.#database.name)
    async function* read<Row extends object>({ text, rowsPerRead }: ExportQuery): AsyncGenerator<readonly Row[]> {
      let rows: Row[] = []
      for (const row of snapshot.prepare<[object], Row>(text).iterate({ 1: account })) {
        rows.push(row)
        if (rows.length < rowsPerRead) continue
        yield rows
        rows = []
        await setImmediate()
      }
      if (rows.length > 0) yield rows
    }
    try {
      await use(read)
    } finally {
      closeSnapshot(snapshot)
    }
  }

  protected plantsById(account: number, ids: readonly number[]): Script<readonly PortableRow[]> {
    const text = `SELECT ${portableColumns} FROM ${portableTables} WHERE p.account = $1 AND p.id = $2`
    return queryEach<PortableRow>(
      text,
      ids.map((id) => [account, id]),
    )
  }

  protected insert(account: number, plants: readonly PortablePlant[]): Script<readonly { readonly id: number }[]> {
    const text = `
      INSERT INTO plants (account, id, name, tag, place, archived, folded, found, created, updated, version)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING RETURNING id`
    return queryEach(
      text,
      plants
        .map(insertedOf)
        .map((row) => [
          ...[account, row.id, row.name, row.tag, row.place, row.archived],
          ...[row.folded, row.found, row.created, row.updated, row.version],
        ]),
    )
  }

  protected remove(account: number, plants: readonly PortablePlant[]): Script<readonly { readonly id: number }[]> {
    const text = `
      DELETE FROM plants WHERE account = $1 AND id = $2 AND name = $3 AND tag IS $4 AND version = coalesce($5, version)
      RETURNING id`
    return queryEach(
      text,
      plants.map(({ id, name, tag = null, version = null }) => [account, id, name, tag, version]),
    )
  }
}
