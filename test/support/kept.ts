import type { Database } from 'better-sqlite3'

/**
 * All rows that a service keeps, by table, to compare before and after what must write nothing. Without the ledger and
 * the last use of keys: the requests before, which were good ones, are put down there a moment later.
 */
export function everythingKept(database: Database): Readonly<Record<string, readonly unknown[]>> {
  const tables = database
    .prepare<[], string>("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('requests', 'spend')")
    .pluck()
    .all()
  const rowsOf = (table: string) =>
    database
      .prepare<[], Readonly<Record<string, unknown>>>(`SELECT * FROM ${table}`)
      .all()
      .map(({ last_used: _when, ...row }) => row)
  return Object.fromEntries(tables.map((table) => [table, rowsOf(table)]))
}
