import type { TestSql } from './test-sql.ts'

/** What is written by itself, a moment after a good request, and the signs of life of a replica. */
const writtenLater = new Set(['requests', 'spend', 'replicas'])

/** All rows that a service keeps, by table, to compare before and after what must write nothing; without `last_used`. */
export async function everythingKept(sql: TestSql): Promise<Readonly<Record<string, readonly string[]>>> {
  const tables = (await sql.tables()).filter((table) => !writtenLater.has(table))
  const rowsOf = async (table: string): Promise<[string, readonly string[]]> => {
    const rows = await sql.run<Readonly<Record<string, unknown>>>(`SELECT * FROM ${table}`)
    return [table, rows.map(({ last_used: _when, ...row }) => JSON.stringify(row)).toSorted()]
  }
  return Object.fromEntries(await Promise.all(tables.map(rowsOf)))
}
