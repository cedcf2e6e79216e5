import { codeOf, StorageError, StorageNotReady } from '../../errors.ts'
import { type OnMigrated, postgresMigrations } from '../migrations.ts'
import { PostgresDatabase, type Transaction } from './database.ts'
import { isConnectionLoss, refusedSetting, Unconfirmed } from './failures.ts'
import { hasMigrations, migratePostgres } from './migrate.ts'
import { reasonOf, startFaultOf } from './start-faults.ts'

/** The oldest PostgreSQL that has every function of our statements: `starts_with` is new in 11. */
const oldestMajor = 11
/** SQLSTATEs undefined_function and undefined_object: an engine other than PostgreSQL may refuse to report the version. */
const reportsNoVersion = new Set(['42883', '42704'])

const noTransactions =
  'is behind a pooler that does not support transactions, such as PgBouncer with pool_mode = statement. Set pool_mode = transaction or pool_mode = session there'

/**
 * Opens the database of a URL, and brings its schema up to date.
 * @param setting the setting or option that has the URL, for messages
 * @param mayCreate whether tables are created in a database without tables
 * @throws StorageError when the database cannot be used; a `StorageNotReady` when a retry may help. The message is one line, with
 *   the hosts of the URL, and without name and password
 */
export async function connectPostgres(
  url: string,
  setting = 'DATABASE_URL',
  onMigrated?: OnMigrated<Transaction, Promise<void>>,
  mayCreate = true,
): Promise<PostgresDatabase> {
  const database = openPostgres(url, setting)
  try {
    await database.detectPooler()
    await refuseOldServer(database)
    if (!mayCreate) await requireTables(database, setting)
    await migratePostgres(database, postgresMigrations, onMigrated)
    return database
  } catch (error) {
    const isSplit = await splitsTransactions(database, error)
    await database.close(0)
    if (error instanceof StorageError) throw error
    if (isSplit) throw new StorageError(`The database at ${database.place} ${noTransactions}.`)
    const { says, isTransient } = startFaultOf(error)
    const sentence = `The database at ${database.place} ${says.replace('DATABASE_URL', setting)}.`
    throw isTransient ? new StorageNotReady(sentence) : new StorageError(sentence)
  }
}

/**
 * @param setting the setting or option that has the URL of the database
 * @throws StorageError when no service and no move has made tables in the database
 */
export async function requireTables(database: PostgresDatabase, setting: string): Promise<void> {
  if (await hasMigrations(database)) return
  throw new StorageError(
    `The database at ${database.place} has no tables of Conservatory. Check ${setting}, or start the service, which makes the tables.`,
  )
}

/**
 * Opens the database of a URL without migrating it.
 * @param known `timeoutMs` is how long a caller waits for an answer, by default as long as a request may. `isPooled` says whether
 *   a pooler is known to stand before the server
 * @throws StorageError when the URL is invalid
 */
export function openPostgres(
  url: string,
  setting: string,
  known: { readonly timeoutMs?: number; readonly isPooled?: boolean } = {},
): PostgresDatabase {
  try {
    return new PostgresDatabase(url, known.timeoutMs, known.isPooled)
  } catch (error) {
    if (error instanceof StorageError) throw new StorageError(error.message.replace('DATABASE_URL', setting))
    // Node's error contains the whole URL, and so the password.
    throw new StorageError(`${setting} is not an address such as postgres://name:password@host:5432/database.`)
  }
}

/** @throws StorageError when the server reports a version that is too old for our statements */
async function refuseOldServer(database: PostgresDatabase): Promise<void> {
  const version = await database
    .read((sql) => sql<{ version: string }[]>`SELECT current_setting('server_version_num') AS version`)
    .then(([row]) => Number(row?.version))
    .catch((error: unknown) => {
      if (reportsNoVersion.has(codeOf(error))) return Number.NaN
      throw error
    })
  if (version >= oldestMajor * 10_000 || Number.isNaN(version)) return
  throw new StorageError(
    `The database at ${database.place} is PostgreSQL ${Math.floor(version / 10_000)}, and Conservatory needs ${oldestMajor} or newer. Upgrade it, or give another database.`,
  )
}

/**
 * Whether an error at the start comes from a pooler in statement mode. In this mode, PgBouncer ends the connection at the
 * beginning of a transaction, and still answers single statements.
 */
async function splitsTransactions(database: PostgresDatabase, error: unknown): Promise<boolean> {
  const reason = reasonOf(error)
  if (reason instanceof Unconfirmed) return true
  if (!database.isPooled || !isConnectionLoss(reason) || refusedSetting(reason) !== undefined) return false
  return database
    .read((sql) => sql`SELECT 1`)
    .then(
      () => true,
      () => false,
    )
}
