import { isDamage } from '../../errors.ts'
import { counted } from '../../text.ts'
import type { Finding, RowRule, TableRule } from './rules.ts'
import { rulesFor, tableRules } from './rules.ts'

/** A value of a key. */
export type KeyValue = string | number | bigint | Uint8Array | null

/** A database that is looked through, statement by statement: none of them holds one moment of it for long. */
export interface CheckedDatabase {
  readonly engine: 'SQLite' | 'PostgreSQL'
  /** The tables that are there, with the columns of their primary keys. */
  readonly tables: ReadonlyMap<string, readonly string[]>
  /** Tables that the schema should have and has not. */
  readonly missing: readonly string[]
  /** What the engine itself tells of its files, its indexes and its foreign keys. */
  integrity(): AsyncIterable<Finding>
  /** Runs a statement with a `?` for each value. */
  ask<Row extends object>(sql: string, values: readonly KeyValue[]): Promise<readonly Row[]>
}

/** Rows that one statement looks at. */
const portion = 5000

/**
 * Looks through a database, and only reads.
 * @returns what is wrong with it; nothing where it is good
 * @throws what the database says where it cannot be asked
 */
export async function* check(database: CheckedDatabase): AsyncIterable<Finding> {
  const { tables, missing } = database
  for (const table of missing) yield damage(`The table ${table} is missing.`)
  yield* orDamage('The database', () => database.integrity())
  for (const rule of tableRules) {
    if (rule.engine !== database.engine || !rule.tables.every((name) => tables.has(name))) continue
    yield* orDamage(`The table ${rule.tables.at(-1)}`, () => askOnce(database, rule))
  }
  for (const rule of rulesFor(new Set(tables.keys()), database.engine))
    yield* orDamage(`The table ${rule.table}`, () => askByPortions(database, rule))
}

/** A database that cannot be read as what it is. */
export function damage(message: string): Finding {
  return { kind: 'damage', message }
}

async function* askOnce(database: CheckedDatabase, { sql, says }: TableRule): AsyncIterable<Finding> {
  const [row] = await database.ask<{ fault: number }>(sql, [])
  if (row?.fault === 1) yield { kind: 'counter', message: says }
}

async function* askByPortions(database: CheckedDatabase, rule: RowRule): AsyncIterable<Finding> {
  const columns = database.tables.get(rule.table) ?? []
  const key = columns.map((column) => `r.${column}`).join()
  const places = columns.map(() => '?').join()
  let after: readonly KeyValue[] = []
  let faults = 0
  do {
    const from = after.length > 0 ? `(${key}) > (${places})` : 'TRUE'
    const [end] = await database.ask<Record<string, KeyValue>>(
      `SELECT ${key} FROM ${rule.table} AS r WHERE ${from} ORDER BY ${key} LIMIT 1 OFFSET ${portion - 1}`,
      after,
    )
    const upTo: readonly KeyValue[] = end === undefined ? [] : columns.map((column) => end[column] ?? null)
    const to = upTo.length > 0 ? `(${key}) <= (${places})` : 'TRUE'
    const [found] = await database.ask<{ faults: number }>(
      `SELECT count(*) AS faults FROM ${rule.table} AS r WHERE ${from} AND ${to} AND (${rule.fault})`,
      [...after, ...upTo],
    )
    faults += Number(found?.faults ?? 0)
    after = upTo
  } while (after.length > 0)
  if (faults > 0) yield { kind: rule.kind, message: `${rule.table} has ${counted(faults, 'row')} ${rule.says}.` }
}

/** What cannot be read for its damage is a finding, and no end of the check. */
async function* orDamage(what: string, look: () => AsyncIterable<Finding>): AsyncIterable<Finding> {
  try {
    yield* look()
  } catch (error) {
    if (!(error instanceof Error) || !isDamage(error)) throw error
    yield damage(`${what} cannot be read: ${error.message}.`)
  }
}
