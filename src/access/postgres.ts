import { runAudited } from '../audit/postgres.ts'
import type { Recorder } from '../audit/record.ts'
import { ShortLivedCache } from '../storage/caches.ts'
import type { PostgresDatabase } from '../storage/postgres/database.ts'
import { withoutStandby } from '../storage/postgres/replicas.ts'
import { runScript } from '../storage/postgres/scripts.ts'
import { rowsOf, type Script, sql } from '../storage/scripts.ts'
import { endOfRow } from './rows.ts'
import { DatabaseAccessStore } from './store.ts'

/** Accounts and keys in PostgreSQL. A change by another replica is seen here at most half a second later. */
export class PostgresAccessStore extends DatabaseAccessStore {
  protected readonly forUpdate = sql`FOR UPDATE`
  protected readonly forNoKeyUpdate = sql`FOR NO KEY UPDATE`
  protected readonly newAccountId =
    sql`UPDATE counters SET value = value + 1 WHERE name = 'accounts' RETURNING value AS id`
  readonly #database: PostgresDatabase

  constructor(database: PostgresDatabase) {
    super(new ShortLivedCache())
    this.#database = database
  }

  protected read<T>(script: () => Script<T>): Promise<T> {
    return this.#database.read((sql) => runScript(sql, script()))
  }

  protected write<T>(script: (record: Recorder) => Script<T>, timeoutMs?: number): Promise<T> {
    return runAudited(this.#database, script, timeoutMs)
  }

  protected lockAccounts(): Script<unknown> {
    return rowsOf(sql`SELECT value FROM counters WHERE name = 'accounts' FOR UPDATE`)
  }

  async prune(before: number, max: number): Promise<number> {
    const remove = sql`
      DELETE FROM keys WHERE id IN (
        SELECT id FROM keys WHERE ${endOfRow} < ${before} ORDER BY ${endOfRow} LIMIT ${max} FOR UPDATE SKIP LOCKED
      ) RETURNING id`
    return (await this.write(() => rowsOf(remove))).length
  }

  async noteUses(uses: ReadonlyMap<string, number>): Promise<void> {
    const noted = JSON.stringify([...uses].map(([id, moment]) => ({ id, moment })))
    await this.#database.transaction(async (sql) => {
      await withoutStandby(sql)
      // Of the uses that replicas write, the latest is kept. ORDER BY makes deadlocks of replicas less likely. The planner may
      // still join in another order. Then a deadlock is possible, and the transaction is retried.
      await sql`
        UPDATE keys SET last_used = noted.moment
        FROM (SELECT id, moment FROM json_to_recordset(${noted}::text::json) AS x(id text, moment bigint) ORDER BY id) AS noted
        WHERE keys.id = noted.id AND (keys.last_used IS NULL OR keys.last_used < noted.moment)`
    })
  }
}
