import type { Config } from '../../config.ts'
import { isDamage, StorageError } from '../../errors.ts'
import { print, printJson, printNotice } from '../../print.ts'
import { openToRead } from '../../storage/copy.ts'
import { noDatabase, requireDatabase } from '../../storage/data-folder.ts'
import { appliedMigrations } from '../../storage/migrations.ts'
import { counted } from '../../text.ts'
import {
  type CheckedDatabase,
  damage,
  type Finding,
  type KeyValue,
  type RowRule,
  rulesFor,
  type TableRule,
  tableRules,
} from './rules.ts'
import { sqliteToCheck } from './sqlite.ts'

const rowsPerQuery = 5000
/** This is longer than the time limit of a request, because a statement of a check may read a whole table. */
const statementTimeoutMs = 600_000

/**
 * Checks the database of the settings, and prints its faults on stdout: a line for each fault, or one JSON object.
 * @throws StorageError when there are faults, or the database cannot be checked
 */
export async function runCheck({ databasePath, databaseUrl }: Config, json: true | undefined): Promise<void> {
  const found = databaseUrl === undefined ? checkFile(databasePath) : checkServer(databaseUrl)
  const findings: Finding[] = []
  for await (const finding of found) {
    findings.push(finding)
    if (!json) print(`${finding.message}\n`)
  }
  const ok = findings.length === 0
  if (json) printJson({ ok, findings })
  if (!ok)
    throw new StorageError(`The database has ${counted(findings.length, 'fault')}: see Damage in docs/operations.md.`)
  printNotice('The database is good.')
}

async function* checkFile(path: string): AsyncIterable<Finding> {
  requireDatabase(path)
  try {
    const database = openToRead(path)
    try {
      // An empty file has no migrations.
      if (!appliedMigrations(database)) throw noDatabase(path)
      yield* check(sqliteToCheck(database, path))
    } finally {
      database.close()
    }
  } catch (error) {
    if (!(error instanceof Error) || !isDamage(error)) throw error
    yield damage(error instanceof StorageError ? error.message : `The database cannot be read: ${error.message}.`)
  }
}

async function* checkServer(url: string): AsyncIterable<Finding> {
  const { openPostgres, requireTables } = await import('../../storage/postgres/connect.ts')
  const { startFaultOf } = await import('../../storage/postgres/start-faults.ts')
  const { postgresToCheck } = await import('./postgres.ts')
  // `first` has the time limit of a request, so the check of an unreachable server fails soon. `database` has the long limit.
  const first = openPostgres(url, 'DATABASE_URL')
  let database = first
  try {
    await first.detectPooler()
    await requireTables(first, 'DATABASE_URL')
    database = openPostgres(url, 'DATABASE_URL', { timeoutMs: statementTimeoutMs, isPooled: first.isPooled })
    yield* check(await postgresToCheck(database, printNotice))
  } catch (error) {
    if (error instanceof StorageError) throw error
    throw new StorageError(`The database at ${first.place} ${startFaultOf(error).says}.`)
  } finally {
    await Promise.all([first.close(), database.close()])
  }
}

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
