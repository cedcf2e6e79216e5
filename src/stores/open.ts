import { type Actor, commandLine } from '../audit/record.ts'
import type { Config } from '../config.ts'
import { openSqliteStores, type Stores } from './stores.ts'

/**
 * Opens the stores where the settings say: a PostgreSQL for all replicas, or the SQLite file of the data folder.
 * @param by opens them, and is who a change of the schema is put on record of
 * @throws StorageError with one clear sentence when they cannot be opened
 */
export async function openStores({ databasePath, databaseUrl }: Config, by: Actor = commandLine): Promise<Stores> {
  if (databaseUrl === undefined) return openSqliteStores(databasePath, by)
  const { openPostgresStores } = await import('./postgres.ts')
  return openPostgresStores(databaseUrl, by)
}
