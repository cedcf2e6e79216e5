import { join } from 'node:path'
import Database from 'better-sqlite3'
import postgres from 'postgres'
import { onTestFinished } from 'vitest'
import { databaseOf } from './test-database.ts'

export type Value = string | number | null

/** Plain SQL on the database of a data folder, on its own connection. Both engines must understand the SQL. */
export interface TestSql {
  /** Runs a statement with a `?` for each value, and returns its rows; integers are numbers. */
  run<Row extends object>(statement: string, ...values: readonly Value[]): Promise<readonly Row[]>
  /** Adds rows to a table in one transaction. All rows have the same columns. */
  insert(table: string, rows: readonly Readonly<Record<string, Value>>[]): Promise<void>
  /** The names of all tables. */
  tables(): Promise<readonly string[]>
  /** Whether a reader has an older snapshot of the database. */
  hasReader(): Promise<boolean>
  close(): Promise<void>
}

/** Opens the database of a data folder. The caller closes it. */
export async function openSql(dataDirectory: string): Promise<TestSql> {
  return openSqlOf(dataDirectory, await databaseOf(dataDirectory))
}

/** Opens the PostgreSQL database at a URL; without a URL, the SQLite file of a data folder. The caller closes it. */
export function openSqlOf(dataDirectory: string, url: string | undefined): TestSql {
  return url === undefined ? openSqlite(join(dataDirectory, 'conservatory.db')) : openPostgres(url)
}

/** Opens the database of a data folder, and closes it at the end of the running test. */
export async function sqlForThisTest(dataDirectory: string): Promise<TestSql> {
  const sql = await openSql(dataDirectory)
  onTestFinished(() => sql.close())
  return sql
}

function openSqlite(path: string): TestSql {
  const database = new Database(path)
  // Faster. A power cut during a test could damage the database, but no test cuts the power.
  database.pragma('synchronous = OFF')
  return {
    async run<Row extends object>(text: string, ...values: readonly Value[]) {
      const statement = database.prepare<Value[], Row>(text)
      if (statement.reader) return statement.all(...values)
      statement.run(...values)
      return []
    },
    async insert(table, rows) {
      if (rows.length === 0) return
      const columns = Object.keys(rows[0] ?? {})
      const places = columns.map((column) => `@${column}`)
      const statement = database.prepare(`INSERT INTO ${table} (${columns.join()}) VALUES (${places.join()})`)
      const insertAll = database.transaction(() => {
        for (const row of rows) statement.run(row)
      })
      insertAll.immediate()
    },
    async tables() {
      const named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
      return database.prepare<[], string>(named).pluck().all()
    },
    async hasReader() {
      // SQLite cannot truncate the log while a reader uses it.
      database.pragma('busy_timeout = 0')
      const isBusy = database.pragma('wal_checkpoint(TRUNCATE)', { simple: true }) === 1
      database.pragma('busy_timeout = 5000')
      return isBusy
    },
    async close() {
      database.close()
    },
  }
}

function openPostgres(url: string): TestSql {
  const sql = postgres(url, {
    max: 1,
    onnotice: () => {},
    types: { bigint: { to: 20, from: [20], parse: Number, serialize: String } },
  })
  return {
    async run<Row extends object>(statement: string, ...values: readonly Value[]) {
      let count = 0
      const numbered = statement.replace(/\?/g, () => `$${++count}`)
      return [...(await sql.unsafe<Row[]>(numbered, [...values]))]
    },
    async insert(table, rows) {
      await sql.begin(async (transaction) => {
        // A statement can have at most 65,534 values.
        for (let from = 0; from < rows.length; from += 2000) {
          await transaction`INSERT INTO ${sql(table)} ${sql(rows.slice(from, from + 2000))}`
        }
      })
    },
    async tables() {
      const rows = await sql<{ name: string }[]>`
        SELECT table_name AS name FROM information_schema.tables WHERE table_schema = current_schema()`
      return rows.map(({ name }) => name)
    },
    async hasReader() {
      const rows = await sql`
        SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
          AND backend_xmin IS NOT NULL`
      return rows.length > 0
    },
    close: () => sql.end(),
  }
}

/** Tables whose rows change without an action: the service writes them a moment after a request, or as heartbeats of replicas. */
const writtenLater = new Set(['requests', 'usage_days', 'spend', 'replicas'])

/** All rows of a service by table, to check that an action writes nothing. The column `last_used` of keys is left out. */
export async function everythingKept(sql: TestSql): Promise<Readonly<Record<string, readonly string[]>>> {
  const tables = (await sql.tables()).filter((table) => !writtenLater.has(table))
  const rowsOf = async (table: string): Promise<[string, readonly string[]]> => {
    const rows = await sql.run<Readonly<Record<string, unknown>>>(`SELECT * FROM ${table}`)
    return [table, rows.map(({ last_used: _when, ...row }) => JSON.stringify(row)).toSorted()]
  }
  return Object.fromEntries(await Promise.all(tables.map(rowsOf)))
}
