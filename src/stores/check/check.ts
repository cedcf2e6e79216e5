import { isDamage } from '../../errors.ts'
import { counted } from '../../text.ts'
import type { Finding, RowRule, TableRule } from './rules.ts'
import { rulesFor, tableRules } from './rules.ts'

/** The value of one column of a primary key. */
export type KeyValue = string | number | bigint | Uint8Array | null

/** A database to check. Rules for rows are checked with many short statements, so that no snapshot is open for long. */
export interface CheckedDatabase {
  readonly engine: 'SQLite' | 'PostgreSQL'
  /** The existing tables, with the columns of their primary keys. */
  readonly tables: ReadonlyMap<string, readonly string[]>
  /** Tables of the schema that do not exist. */
  readonly missing: readonly string[]
  /** With SQLite, its built-in checks of the file, the indexes and the foreign keys. With PostgreSQL, a check of the indexes. */
  integrity(): AsyncIterable<Finding>
  /** Runs a statement with a `?` for each value. */
  query<Row extends object>(sql: string, values: readonly KeyValue[]): Promise<readonly Row[]>
}

const rowsPerQuery = 5000

/**
 * Checks a database without changing it.
 * @returns the faults; a good database has no faults
 * @throws the database's error when the database cannot be reached
 */
export async function* check(database: CheckedDatabase): AsyncIterable<Finding> {
  const { tables, missing } = database
  for (const table of missing) yield damage(`The table ${table} is missing.`)
  yield* orDamage('The database', () => database.integrity())
  for (const rule of tableRules) {
    if (rule.engine !== database.engine || !rule.tables.every((name) => tables.has(name))) continue
    yield* orDamage(`The table ${rule.tables.at(-1)}`, () => checkTable(database, rule))
  }
  for (const rule of rulesFor(new Set(tables.keys()), database.engine))
    yield* orDamage(`The table ${rule.table}`, () => checkRows(database, rule))
}

/** A finding of the kind `damage`. */
export function damage(message: string): Finding {
  return { kind: 'damage', message }
}

async function* checkTable(database: CheckedDatabase, { sql, says }: TableRule): AsyncIterable<Finding> {
  const [row] = await database.query<{ fault: number }>(sql, [])
  if (row?.fault === 1) yield { kind: 'counter', message: says }
}

async function* checkRows(database: CheckedDatabase, rule: RowRule): AsyncIterable<Finding> {
  const columns = database.tables.get(rule.table) ?? []
  const key = columns.map((column) => `r.${column}`).join()
  const placeholders = columns.map(() => '?').join()
  let after: readonly KeyValue[] = []
  let faults = 0
  do {
    const from = after.length > 0 ? `(${key}) > (${placeholders})` : 'TRUE'
    const [end] = await database.query<Record<string, KeyValue>>(
      `SELECT ${key} FROM ${rule.table} AS r WHERE ${from} ORDER BY ${key} LIMIT 1 OFFSET ${rowsPerQuery - 1}`,
      after,
    )
    const upTo: readonly KeyValue[] = end === undefined ? [] : columns.map((column) => end[column] ?? null)
    const to = upTo.length > 0 ? `(${key}) <= (${placeholders})` : 'TRUE'
    const [found] = await database.query<{ faults: number }>(
      `SELECT count(*) AS faults FROM ${rule.table} AS r WHERE ${from} AND ${to} AND (${rule.fault})`,
      [...after, ...upTo],
    )
    faults += Number(found?.faults ?? 0)
    after = upTo
  } while (after.length > 0)
  if (faults > 0) yield { kind: rule.kind, message: `${rule.table} has ${counted(faults, 'row')} ${rule.says}.` }
}

/** Reports an error of a damaged database as a finding, so that the check goes on. */
async function* orDamage(what: string, check: () => AsyncIterable<Finding>): AsyncIterable<Finding> {
  try {
    yield* check()
  } catch (error) {
    if (!(error instanceof Error) || !isDamage(error)) throw error
    yield damage(`${what} cannot be read: ${error.message}.`)
  }
}
