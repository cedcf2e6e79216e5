import { setTimeout as wait } from 'node:timers/promises'
import { codeOf, StorageError } from '../../errors.ts'
import { printNotice } from '../../print.ts'
import { unixSeconds } from '../../time.ts'
import { newerVersion } from '../data-folder.ts'
import { type Migration, type OnMigrated, postgresMigrations } from '../migrations.ts'
import { type MoveRow, toUnfinishedMove, type UnfinishedMove } from '../unfinished-move.ts'
import type { PostgresDatabase, Queries, Transaction } from './database.ts'

/** How long a migration may take, and when the operator gets a notice. Tests set other times. */
export interface MigrationTimes {
  /** The time limit, including the waits for other replicas. It is long: a migration may read every row of a large table. */
  readonly timeoutMs: number
  readonly noticeAfterMs: number
  /** The interval at which the start checks that the database still answers. */
  readonly checkIntervalMs: number
  readonly tell: (sentence: string) => void
}

const defaultTimes: MigrationTimes = {
  timeoutMs: 6 * 3_600_000,
  noticeAfterMs: 2000,
  checkIntervalMs: 5000,
  tell: printNotice,
}

/**
 * Brings the schema up to date. Any number of replicas may call this function at the same time. One replica locks the row of
 * `migration_lock` and migrates, and the other replicas wait for this lock. It is a row lock, because other engines than
 * PostgreSQL may have no advisory locks.
 * @throws StorageError when a newer version has migrated the database and this version may not use it, or when tables or columns
 * are missing
 * @throws ApiError 503 when the database no longer answers
 */
export async function migratePostgres(
  database: PostgresDatabase,
  history: readonly Migration[] = postgresMigrations,
  onMigrated?: OnMigrated<Transaction, Promise<void>>,
  times = defaultTimes,
): Promise<void> {
  await prepare(database)
  const work = async (sql: Transaction) => {
    await lock(sql, database.place, times)
    await applyMissing(sql, database.place, history, onMigrated, times)
  }
  await whileItAnswers(database, database.transaction(work, times.timeoutMs), times)
}

/** Waits until no other replica migrates, and keeps other replicas from migrating until the transaction ends. */
async function lock(sql: Transaction, place: string, { noticeAfterMs, tell }: MigrationTimes): Promise<void> {
  const sentence = `Another replica is bringing the tables of the database at ${place} up to date. Waiting for it.`
  const noticeTimer = setTimeout(() => tell(sentence), noticeAfterMs)
  try {
    await sql`SELECT id FROM migration_lock WHERE id = 1 FOR UPDATE`
  } finally {
    clearTimeout(noticeTimer)
  }
}

async function applyMissing(
  sql: Transaction,
  place: string,
  history: readonly Migration[],
  onMigrated: OnMigrated<Transaction, Promise<void>> | undefined,
  { noticeAfterMs, tell }: MigrationTimes,
): Promise<void> {
  const rows = await sql<{ name: string; servesFrom: string | null }[]>`
    SELECT name, serves_from AS "servesFrom" FROM migrations ORDER BY name`
  refuseNewer(rows, place, history)
  const applied = new Set(rows.map(({ name }) => name))
  const missing = history.filter(({ name }) => !applied.has(name))
  const sentence = `The tables of the database at ${place} are being brought up to date. Large tables take minutes.`
  const noticeTimer = setTimeout(() => tell(sentence), noticeAfterMs)
  try {
    for (const { name, sql: statements, servesFrom = null } of missing) {
      await sql.unsafe(statements)
      await sql`
        INSERT INTO migrations (name, applied, serves_from) VALUES (${name}, ${unixSeconds()}, ${servesFrom})`
    }
  } finally {
    clearTimeout(noticeTimer)
  }
  await checkTables(sql, place, history)
  const [before, after] = [rows.at(-1)?.name, missing.at(-1)?.name]
  if (before !== undefined && after !== undefined) await onMigrated?.(sql, before, after)
}

/**
 * Refuses a database that a newer version has migrated, unless this version may still use the database (`servesFrom`). Without
 * this exception, replicas of the previous release could not restart during a rolling update.
 */
function refuseNewer(
  applied: readonly { readonly name: string; readonly servesFrom: string | null }[],
  place: string,
  history: readonly Migration[],
): void {
  const known = new Set(history.map(({ name }) => name))
  const newer = applied.filter(
    ({ name, servesFrom }) => !known.has(name) && (servesFrom === null || !known.has(servesFrom)),
  )
  if (newer.length === 0) return
  const names = newer.map(({ name }) => name)
  throw newerVersion(`The database at ${place}`, names, 'Start that version.')
}

/** Settles as the work does. @throws ApiError 503 as soon as the database no longer answers, even if the work has time left */
async function whileItAnswers<T>(
  database: PostgresDatabase,
  work: Promise<T>,
  { checkIntervalMs }: MigrationTimes,
): Promise<T> {
  const over = new AbortController()
  const watch = async (): Promise<never> => {
    for (;;) {
      await wait(checkIntervalMs, undefined, { signal: over.signal })
      await database.read((sql) => sql`SELECT 1`)
    }
  }
  try {
    return await Promise.race([work, watch()])
  } finally {
    over.abort()
  }
}

/**
 * Checks for the readiness probe that the database answers, is writable and has our tables.
 * @throws ApiError 503 when the database does not answer
 * @throws StorageError when the database is read-only, or columns are missing
 */
export function checkPostgres(database: PostgresDatabase): Promise<void> {
  return database.read(async (sql) => {
    const [row] = await sql<{ mode: string }[]>`SELECT current_setting('transaction_read_only') AS mode`
    if (row?.mode === 'on') {
      throw new StorageError(
        `The database at ${database.place} only reads. Name the server that writes, or name all servers and add target_session_attrs=read-write.`,
      )
    }
    await checkTables(sql, database.place, postgresMigrations)
  })
}

/**
 * Creates the tables that the migrations themselves need. This transaction has the time limit of a request, so a database without
 * transactions is detected soon. If several replicas create the tables at the same time, only one may succeed. The others retry.
 */
async function prepare(database: PostgresDatabase): Promise<void> {
  for (let attempts = 0; ; attempts++) {
    try {
      return await database.transaction(async (sql) => {
        // CREATE TABLE IF NOT EXISTS would wait for a replica that migrates, even if the tables exist.
        if (await isPrepared(sql)) return
        await sql`CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied BIGINT NOT NULL)`
        await sql`ALTER TABLE migrations ADD COLUMN IF NOT EXISTS serves_from TEXT`
        await sql`CREATE TABLE IF NOT EXISTS migration_lock (id BIGINT PRIMARY KEY)`
        await sql`INSERT INTO migration_lock VALUES (1) ON CONFLICT DO NOTHING`
      })
    } catch (error) {
      // Two replicas have created the same table at the same time. The codes are unique_violation (in the catalogue),
      // duplicate_table, and duplicate_object (for the type of the table's rows).
      if (!['23505', '42P07', '42710'].includes(codeOf(error)) || attempts >= 10) throw error
    }
  }
}

/** Whether a service, or a move, has made tables in a database. */
export function hasMigrations(database: PostgresDatabase): Promise<boolean> {
  return database.read(async (sql) => {
    return (await hasTable(sql, 'migrations')) && (await sql`SELECT name FROM migrations LIMIT 1`).length > 0
  })
}

async function isPrepared(sql: Queries): Promise<boolean> {
  const rows = await sql`
    SELECT column_name FROM information_schema.columns
    WHERE table_schema = current_schema()
      AND (table_name = 'migrations' AND column_name = 'serves_from' OR table_name = 'migration_lock' AND column_name = 'id')`
  return rows.length === 2
}

/**
 * Checks that every table and column of the history exists.
 * @throws StorageError that names the missing columns
 */
async function checkTables(sql: Queries, place: string, history: readonly Migration[]): Promise<void> {
  const rows = await sql<{ table: string; column: string }[]>`
    SELECT table_name AS table, column_name AS column FROM information_schema.columns
    WHERE table_schema = current_schema()`
  const found = new Set(rows.map(({ table, column }) => `${table}.${column}`))
  const missing = columnsOf(history).filter((column) => !found.has(column))
  if (missing.length === 0) return
  throw new StorageError(
    `The tables of the database at ${place} are not those that Conservatory made: ${missing.join(', ')} missing. Restore them, or give another database.`,
  )
}

/** The columns that a history of CREATE TABLE and ADD COLUMN statements creates, as `table.column`. */
function columnsOf(history: readonly Migration[]): readonly string[] {
  return history.flatMap(({ sql }) => [
    ...[...sql.matchAll(/CREATE TABLE (\w+) \(([\s\S]*?)\);/g)].flatMap(([, table, body = '']) =>
      [...body.matchAll(/(?:^|,)\s*([a-z_]+) (?:TEXT|BIGINT|BYTEA|DOUBLE)/g)].map(([, column]) => `${table}.${column}`),
    ),
    ...[...sql.matchAll(/ALTER TABLE (\w+) ADD COLUMN (\w+)/g)].map(([, table, column]) => `${table}.${column}`),
  ])
}

/** The unfinished move into a PostgreSQL database; undefined when there is no such move. */
export function unfinishedMoveIn(database: PostgresDatabase): Promise<UnfinishedMove | undefined> {
  return database.read(async (sql) => {
    if (!(await hasTable(sql, 'moves'))) return undefined
    return toUnfinishedMove(await sql<MoveRow[]>`SELECT name, value FROM moves`)
  })
}

async function hasTable(sql: Queries, name: string): Promise<boolean> {
  const tables = await sql`
    SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = ${name}`
  return tables.length > 0
}
