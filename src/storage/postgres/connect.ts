import { codeOf, StorageError, StorageNotReady } from '../../errors.ts'
import type { OnMigrated } from '../migrations.ts'
import { PostgresDatabase, type Transaction } from './database.ts'
import { isConnectionLoss, refusedSetting, Unconfirmed } from './failures.ts'
import { migratePostgres } from './migrate.ts'
import { postgresMigrations } from './migrations.ts'
import { reasonOf, startFaultOf } from './start-faults.ts'

/** The oldest PostgreSQL that has all that our statements name: `starts_with` came with it. */
const oldestMajor = 11
/** SQLSTATEs undefined_function and undefined_object: another engine, which does not tell its version like that. */
const tellsNoVersion = new Set(['42883', '42704'])

const noTransactions =
  'is behind a pooler that keeps no transaction together, as PgBouncer does not with pool_mode = statement. Set pool_mode = transaction or pool_mode = session there'

/**
 * Opens the database of a URL, and brings its schema up to date.
 * @param setting what named the URL, and is to be checked when it is wrong
 * @throws StorageError one line with the hosts, and without the name and the password; a `StorageNotReady` where it may
 *   be over by itself
 */
export async function connectPostgres(
  url: string,
  setting = 'DATABASE_URL',
  onMigrated?: OnMigrated<Transaction, Promise<void>>,
): Promise<PostgresDatabase> {
  const database = openPostgres(url, setting)
  try {
    await database.lookForPooler()
    await refuseOldServer(database)
    await migratePostgres(database, postgresMigrations, onMigrated)
    return database
  } catch (error) {
    const isSplit = await splitsTransactions(database, error)
    await database.close(0)
    if (error instanceof StorageError) throw error
    if (isSplit) throw new StorageError(`The database at ${database.place} ${noTransactions}.`)
    const { says, mayPass } = startFaultOf(error)
    const sentence = `The database at ${database.place} ${says.replace('DATABASE_URL', setting)}.`
    throw mayPass ? new StorageNotReady(sentence) : new StorageError(sentence)
  }
}

/**
 * Opens the database of a URL as it is.
 * @param known milliseconds that whoever asks waits for it at most, where that is more than for a request; and whether it
 *   is known that there is a pooler before the server
 * @throws StorageError when the URL is none
 */
export function openPostgres(
  url: string,
  setting: string,
  known: { readonly patience?: number; readonly isPooled?: boolean } = {},
): PostgresDatabase {
  try {
    return new PostgresDatabase(url, known.patience, known.isPooled)
  } catch (error) {
    if (error instanceof StorageError) throw new StorageError(error.message.replace('DATABASE_URL', setting))
    // Node's own error holds the whole URL, and so the password.
    throw new StorageError(`${setting} is not an address such as postgres://name:password@host:5432/database.`)
  }
}

/** @throws StorageError where the server says that it is older than what our statements need */
async function refuseOldServer(database: PostgresDatabase): Promise<void> {
  const version = await database
    .read((sql) => sql<{ version: string }[]>`SELECT current_setting('server_version_num') AS version`)
    .then(([row]) => Number(row?.version))
    .catch((error: unknown) => {
      if (tellsNoVersion.has(codeOf(error))) return Number.NaN
      throw error
    })
  if (version >= oldestMajor * 10_000 || Number.isNaN(version)) return
  throw new StorageError(
    `The database at ${database.place} is PostgreSQL ${Math.floor(version / 10_000)}, and Conservatory needs ${oldestMajor} or newer. Upgrade it, or give another database.`,
  )
}

/**
 * Tells whether an error at the start is that of a pooler which keeps no transaction together: PgBouncer then ends the
 * connection where one begins, and answers single statements all the same.
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
