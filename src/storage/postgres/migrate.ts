import { setTimeout as wait } from 'node:timers/promises'
import { codeOf, StorageError } from '../../errors.ts'
import { tell } from '../../print.ts'
import { unixSeconds } from '../../time.ts'
import { newerVersion } from '../data-folder.ts'
import type { Migration, OnMigrated } from '../migrations.ts'
import type { PostgresDatabase, Queries, Transaction } from './database.ts'
import { postgresMigrations } from './migrations.ts'

/** How long migrating may take, and what is told meanwhile; a test has its own. */
export interface Patience {
  /** Milliseconds that it may take with all its waiting: a migration may read every row of a large table. */
  readonly most: number
  /** Milliseconds after which the operator is told what is waited for, and between two looks whether the database answers. */
  readonly quiet: number
  readonly betweenLooks: number
  readonly tell: (sentence: string) => void
}

const standardPatience: Patience = { most: 6 * 3_600_000, quiet: 2000, betweenLooks: 5000, tell }

/**
 * Brings the schema up to date; any number of replicas may do so at once: the row of `migration_lock` lets one in at a
 * time, which needs nothing that only PostgreSQL has, and the others wait for it, however long it takes.
 * @throws StorageError when the database is a newer version's that this one may not serve, or its tables are not those
 * that we made
 * @throws ApiError 503 when the database answers no more
 */
export async function migratePostgres(
  database: PostgresDatabase,
  history: readonly Migration[] = postgresMigrations,
  onMigrated?: OnMigrated<Transaction, Promise<void>>,
  patience = standardPatience,
): Promise<void> {
  await prepared(database)
  const work = async (sql: Transaction) => {
    await lock(sql, database.place, patience)
    await applyMissing(sql, database.place, history, onMigrated, patience)
  }
  await whileItAnswers(database, database.transaction(work, patience.most), patience)
}

/** Waits until no other replica migrates. */
async function lock(sql: Transaction, place: string, { quiet, tell }: Patience): Promise<void> {
  const sentence = `Another replica is bringing the tables of the database at ${place} up to date. Waiting for it.`
  const telling = setTimeout(() => tell(sentence), quiet)
  try {
    await sql`SELECT id FROM migration_lock WHERE id = 1 FOR UPDATE`
  } finally {
    clearTimeout(telling)
  }
}

/** Applies the migrations that the database has not seen. */
async function applyMissing(
  sql: Transaction,
  place: string,
  history: readonly Migration[],
  onMigrated: OnMigrated<Transaction, Promise<void>> | undefined,
  { quiet, tell }: Patience,
): Promise<void> {
  const rows = await sql<{ name: string; servesFrom: string | null }[]>`
    SELECT name, serves_from AS "servesFrom" FROM migrations ORDER BY name`
  refuseNewer(rows, place, history)
  const applied = new Set(rows.map(({ name }) => name))
  const missing = history.filter(({ name }) => !applied.has(name))
  const sentence = `The tables of the database at ${place} are being brought up to date. Large ones take minutes.`
  const telling = setTimeout(() => tell(sentence), quiet)
  try {
    for (const { name, sql: statements, servesFrom = null } of missing) {
      await sql.unsafe(statements)
      await sql`
        INSERT INTO migrations (name, applied, serves_from) VALUES (${name}, ${unixSeconds()}, ${servesFrom})`
    }
  } finally {
    clearTimeout(telling)
  }
  await checkTables(sql, place, history)
  const [before, after] = [rows.at(-1)?.name, missing.at(-1)?.name]
  if (before !== undefined && after !== undefined) await onMigrated?.(sql, before, after)
}

/** While replicas are replaced one by one, those of the version before may have to start again. */
function refuseNewer(
  applied: readonly { readonly name: string; readonly servesFrom: string | null }[],
  place: string,
  history: readonly Migration[],
): void {
  const known = new Set(history.map(({ name }) => name))
  const beyond = applied.filter(
    ({ name, servesFrom }) => !known.has(name) && (servesFrom === null || !known.has(servesFrom)),
  )
  if (beyond.length === 0) return
  const names = beyond.map(({ name }) => name)
  throw newerVersion(`The database at ${place}`, names, 'Start that version.')
}

/** Resolves with the work. @throws ApiError 503 as soon as the database answers no more, however long the work may take */
async function whileItAnswers<T>(database: PostgresDatabase, work: Promise<T>, { betweenLooks }: Patience): Promise<T> {
  const over = new AbortController()
  const watch = async (): Promise<never> => {
    for (;;) {
      await wait(betweenLooks, undefined, { signal: over.signal })
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
 * Looks whether the database answers, writes and has our tables, as a readiness probe does.
 * @throws ApiError 503 when it does not answer
 * @throws StorageError naming what is missing
 */
export function checkPostgres(database: PostgresDatabase): Promise<void> {
  return database.read(async (sql) => {
    const [row] = await sql<{ mode: string }[]>`SELECT current_setting('transaction_read_only') AS mode`
    if (row?.mode === 'on') {
      throw new StorageError(
        `The database at ${database.place} only reads. Name the server that writes, or all of them and target_session_attrs=read-write.`,
      )
    }
    await checkTables(sql, database.place, postgresMigrations)
  })
}

/**
 * Makes the tables that migrating itself needs, in the time of a request: so a database that does no transaction is found.
 * Where several replicas do so at once, all but one may fail and look again.
 */
async function prepared(database: PostgresDatabase): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return await database.transaction(async (sql) => {
        // Making them anew, though they are there, would wait for a replica that migrates.
        if (await isPrepared(sql)) return
        await sql`CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied BIGINT NOT NULL)`
        await sql`ALTER TABLE migrations ADD COLUMN IF NOT EXISTS serves_from TEXT`
        await sql`CREATE TABLE IF NOT EXISTS migration_lock (id BIGINT PRIMARY KEY)`
        await sql`INSERT INTO migration_lock VALUES (1) ON CONFLICT DO NOTHING`
      })
    } catch (error) {
      // Two who create one table at the same moment: unique_violation in the catalogue, duplicate_table, or
      // duplicate_object where the type of its rows is there already.
      if (!['23505', '42P07', '42710'].includes(codeOf(error)) || tries >= 10) throw error
    }
  }
}

async function isPrepared(sql: Queries): Promise<boolean> {
  const rows = await sql`
    SELECT column_name FROM information_schema.columns
    WHERE table_schema = current_schema()
      AND (table_name = 'migrations' AND column_name = 'serves_from' OR table_name = 'migration_lock' AND column_name = 'id')`
  return rows.length === 2
}

/**
 * Looks whether every table and column that the history makes is there.
 * @throws StorageError naming what is missing
 */
async function checkTables(sql: Queries, place: string, history: readonly Migration[]): Promise<void> {
  const rows = await sql<{ table: string; column: string }[]>`
    SELECT table_name AS table, column_name AS column FROM information_schema.columns
    WHERE table_schema = current_schema()`
  const there = new Set(rows.map(({ table, column }) => `${table}.${column}`))
  const missing = columnsOf(history).filter((column) => !there.has(column))
  if (missing.length === 0) return
  throw new StorageError(
    `The tables of the database at ${place} are not those that Conservatory made: ${missing.join(', ')} missing. Restore them, or give another database.`,
  )
}

/** The columns that a history of plain CREATE TABLE and ADD COLUMN statements makes, as `table.column`. */
function columnsOf(history: readonly Migration[]): readonly string[] {
  return history.flatMap(({ sql }) => [
    ...[...sql.matchAll(/CREATE TABLE (\w+) \(([\s\S]*?)\);/g)].flatMap(([, table, body = '']) =>
      [...body.matchAll(/(?:^|,)\s*([a-z_]+) (?:TEXT|BIGINT|BYTEA|DOUBLE)/g)].map(([, column]) => `${table}.${column}`),
    ),
    ...[...sql.matchAll(/ALTER TABLE (\w+) ADD COLUMN (\w+)/g)].map(([, table, column]) => `${table}.${column}`),
  ])
}
