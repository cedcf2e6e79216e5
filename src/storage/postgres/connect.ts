import { ApiError, codeOf } from '../../errors.ts'
import { StorageError } from '../folder.ts'
import { PostgresDatabase } from './database.ts'
import { migratePostgres } from './migrate.ts'

/** What to do about the SQLSTATEs that an operator can mend. */
const advice: Readonly<Record<string, string>> = {
  '28P01': 'refuses this name and password. Check DATABASE_URL',
  '28000': 'refuses this user. Check DATABASE_URL, and what the server lets in',
  '3D000': 'has no database of this name. Create it, or check DATABASE_URL',
  '42501': 'does not let this user make tables. Grant it CREATE on the schema',
}

/**
 * Opens the database of a URL, and brings its schema up to date.
 * @param setting what named the URL, and is to be checked when it is wrong
 * @throws StorageError one line with the hosts, and without the name and the password
 */
export async function connectPostgres(url: string, setting = 'DATABASE_URL'): Promise<PostgresDatabase> {
  const database = open(url, setting)
  try {
    await migratePostgres(database)
    return database
  } catch (error) {
    await database.close(0)
    if (error instanceof StorageError) throw error
    const reason = error instanceof ApiError ? error.cause : error
    throw new StorageError(`The database at ${database.place} ${faultOf(reason, setting)}.`)
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

function faultOf(reason: unknown, setting: string): string {
  const code = codeOf(reason)
  const known = advice[code]
  if (known !== undefined) return known.replace('DATABASE_URL', setting)
  const text = code || (reason instanceof Error ? reason.message : 'no answer')
  return `cannot be reached or used (${text}). Check ${setting}, and that the server runs`
}
