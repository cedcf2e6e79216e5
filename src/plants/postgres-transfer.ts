import { runAudited } from '../audit/postgres.ts'
import type { Recorder } from '../audit/record.ts'
import type { PostgresDatabase } from '../storage/postgres/database.ts'
import { livingReplicas } from '../storage/postgres/replicas.ts'
import { runScript } from '../storage/postgres/scripts.ts'
import { query, type Script } from '../storage/scripts.ts'
import { accountGone } from '../storage/write-error.ts'
import type { ExportQuery } from './belongings.ts'
import { renewVersion } from './postgres-writes.ts'
import { type PortablePlant, type PortableRow, portableColumns, portableTables } from './rows.ts'
import { insertedOf, PlantTransfers, type ReadSnapshot } from './transfers.ts'

/** The time limit of a transaction, which may have to wait for locks. */
const maxWaitMs = 30_000
/** The plants of the parameter `$2`, a JSON array. */
const givenPlants = `json_to_recordset($2::text::json) AS given (id BIGINT, name TEXT, tag TEXT, place TEXT, archived BIGINT,
  folded TEXT, found TEXT, created BIGINT, updated BIGINT, version BIGINT)`

/** Exports and imports accounts of PostgreSQL. */
export class PostgresTransfers extends PlantTransfers {
  readonly maxBatchMs = 15
  readonly #database: PostgresDatabase

  constructor(database: PostgresDatabase) {
    super()
    this.#database = database
  }

  /**
   * Looks for replicas, which register at their start, and for connections of other processes to the database. If the
   * server does not show its connections, a service counts as running. Connections of a pooler count as a service too, because
   * a service may use them.
   */
  isServiceRunning(): Promise<boolean> {
    return this.#database.read(async (sql) => {
      if ((await livingReplicas(sql)).length > 0) return true
      const own = this.#database.ports.map((port) => ({ port }))
      const others = sql`
        SELECT 1 FROM pg_stat_activity
        WHERE application_name = 'conservatory' AND datname = current_database()
          AND NOT (client_addr = inet_client_addr() AND client_port IN (
            SELECT port FROM json_to_recordset(${JSON.stringify(own)}::text::json) AS own (port INT))) LIMIT 1`
      return others.then(
        ({ length }) => length > 0,
        () => true,
      )
    })
  }

  protected read<T>(script: () => Script<T>): Promise<T> {
    return this.#database.read((sql) => runScript(sql, script()))
  }

  protected write<T>(script: (record: Recorder) => Script<T>): Promise<T> {
    return runAudited(this.#database, script, maxWaitMs)
  }

  protected writeBatch<T>(script: () => Script<T>): Promise<T> {
    return this.write(script)
  }

  protected *lock(account: number): Script<void> {
    const rows = yield* query('SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE', account)
    if (rows.length === 0) throw accountGone(undefined)
  }

  protected renewVersion(account: number): Script<unknown> {
    return renewVersion(account)
  }

  protected async withSnapshot(account: number, use: (read: ReadSnapshot) => Promise<void>): Promise<void> {
    const reading = this.#database.snapshot(async function* (sql) {
      // A statement runs until its rows are read, so it has no time limit.
      await sql`SET LOCAL statement_timeout = 0`
      const read: ReadSnapshot = <Row extends object>({ text, rowsPerRead }: ExportQuery) =>
        sql.unsafe<Row[]>(text, [account]).cursor(rowsPerRead)
      yield await use(read)
    })
    for await (const _ of reading);
  }

  protected plantsById(account: number, ids: readonly number[]): Script<readonly PortableRow[]> {
    return query<PortableRow>(
      `SELECT ${portableColumns} FROM ${portableTables}
      WHERE p.account = $1 AND p.id IN (SELECT given.id FROM json_to_recordset($2::text::json) AS given (id BIGINT))`,
      account,
      JSON.stringify(ids.map((id) => ({ id }))),
    )
  }

  protected insert(account: number, plants: readonly PortablePlant[]): Script<readonly { readonly id: number }[]> {
    return query(
      `INSERT INTO plants (account, id, name, tag, place, archived, folded, found, created, updated, version)
      SELECT $1::bigint, id, name, tag, place, archived, folded, found, created, updated, version FROM ${givenPlants}
      ON CONFLICT DO NOTHING RETURNING id`,
      account,
      JSON.stringify(plants.map(insertedOf)),
    )
  }

  protected remove(account: number, plants: readonly PortablePlant[]): Script<readonly { readonly id: number }[]> {
    return query(
      `DELETE FROM plants USING ${givenPlants}
      WHERE account = $1 AND plants.id = given.id AND plants.name = given.name AND plants.tag IS NOT DISTINCT FROM given.tag
        AND plants.version = coalesce(given.version, plants.version)
      RETURNING plants.id`,
      account,
      JSON.stringify(plants.map(({ id, name, tag, version }) => ({ id, name, tag, version }))),
    )
  }
}
