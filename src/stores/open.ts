import type { Config } from '../config.ts'
import { openSqliteStores, type Stores } from './stores.ts'

/**
 * Opens the stores where the settings say: a PostgreSQL for all replicas, or the SQLite file of the data folder.
 * @throws StorageError with one clear sentence when they cannot be opened
 */
export async function openStores({ databasePath, databaseUrl }: Config): Promise<Stores> {
  if (databaseUrl === undefined) return openSqliteStores(databasePath)
  const { openPostgresStores } = await import('./postgres.ts')
  return openPostgresStores(databaseUrl)
}
