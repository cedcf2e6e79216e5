import { ApiError, codeOf, StorageError } from '../../errors.ts'
import type { OnMigrated } from '../migrations.ts'
import { PostgresDatabase, type Transaction } from './database.ts'
import { isConnectionLoss, refusedSetting, TookTooLong, Unconfirmed } from './failures.ts'
import { migratePostgres } from './migrate.ts'
import { postgresMigrations } from './migrations.ts'

/** What to do about the SQLSTATEs that an operator can mend. */
const advice: Readonly<Record<string, string>> = {
  '28P01': 'refuses this name and password. Check DATABASE_URL',
  '28000': 'refuses this user. Check DATABASE_URL, and what the server lets in',
  '3D000': 'has no database of this name. Create it, or check DATABASE_URL',
  '42501': 'does not let this user make tables. Grant it CREATE on the schema',
}

const noTransactions =
  'is behind a pooler that keeps no transaction together, as PgBouncer does not with pool_mode = statement. Set pool_mode = transaction or pool_mode = session there'

/**
 * Opens the database of a URL, and brings its schema up to date.
 * @param setting what named the URL, and is to be checked when it is wrong
 * @throws StorageError one line with the hosts, and without the name and the password
 */
export async function connectPostgres(
  url: string,
  setting = 'DATABASE_URL',
  onMigrated?: OnMigrated<Transaction, Promise<void>>,
): Promise<PostgresDatabase> {
  const database = open(url, setting)
  try {
    await database.lookForPooler()
    await migratePostgres(database, postgresMigrations, onMigrated)
    return database
  } catch (error) {
    const isSplit = await splitsTransactions(database, error)
    await database.close(0)
    if (error instanceof StorageError) throw error
    const fault = isSplit ? noTransactions : faultOf(error, setting)
    throw new StorageError(`The database at ${database.place} ${fault}.`)
  }
}

function open(url: string, setting: string): PostgresDatabase {
  try {
    return new PostgresDatabase(url)
  } catch {
    // Node's own error holds the whole URL, and so the password.
    throw new StorageError(`${setting} is not an address such as postgres://name:password@host:5432/database.`)
  }
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

function reasonOf(error: unknown): unknown {
  const reason = error instanceof ApiError ? error.cause : error
  return reason instanceof TookTooLong ? (reason.cause ?? reason) : reason
}

/** What keeps a database from being used, as the end of a sentence. @param setting what named its URL */
export function faultOf(error: unknown, setting: string): string {
  const reason = reasonOf(error)
  const code = codeOf(reason)
  const known = advice[code]
  if (known !== undefined) return known.replace('DATABASE_URL', setting)
  const text = refusedSetting(reason) ?? (code || (reason instanceof Error ? reason.message : 'no answer'))
  return `cannot be reached or used (${text}). Check ${setting}, and that the server runs`
}
