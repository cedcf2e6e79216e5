import { type Actor, commandLine } from '../audit/record.ts'
import type { Config } from '../config.ts'
import type { Damage } from '../storage/damage.ts'
import { openSqliteStores, type Stores } from './stores.ts'

/**
 * Wraps stores, so that errors that show damage are recorded. `transfers` and `deleteAccount` are not wrapped, because only
 * commands use them.
 */
export function watchForDamage(stores: Stores, damage: Damage): Stores {
  const { access, plants, photos, characters, ledger, usage, audit, scripts, check } = stores
  return {
    ...stores,
    access: damage.watch(access),
    plants: damage.watch(plants),
    photos: damage.watch(photos),
    characters: damage.watch(characters),
    ledger: damage.watch(ledger),
    usage: damage.watch(usage),
    audit: damage.watch(audit),
    scripts: damage.watch(scripts),
    limiter: (settings) => damage.watch(stores.limiter(settings)),
    check: damage.watch({ check }).check,
  }
}

/**
 * The engine of the database, its host and its name, for the log. Never the user and the password of the URL: host and name are
 * left out if an unencoded character makes it unclear where the password ends.
 */
export function databaseFacts({ databasePath, databaseUrl }: Pick<Config, 'databasePath' | 'databaseUrl'>) {
  if (databaseUrl === undefined) return { engine: 'sqlite', database: databasePath }
  const [address = ''] = databaseUrl.split(/[?#]/, 1)
  const start = Math.max(address.indexOf('://') + 3, address.lastIndexOf('@') + 1)
  const [host, database] = address.slice(start).split('/')
  const isClear = host && database && !databaseUrl.slice(address.length).includes('@')
  return { engine: 'postgresql', ...(isClear ? { database_host: host, database } : {}) }
}

/**
 * Opens the stores that the settings name: a PostgreSQL database for all replicas, or the SQLite file in the data folder.
 * @param by the actor in the audit record of a migration
 * @param mayCreate whether a database that does not exist is created, with its tables
 * @throws StorageError with one clear sentence when the stores cannot be opened
 */
export async function openStores(
  { databasePath, databaseUrl }: Config,
  by: Actor = commandLine,
  mayCreate = true,
): Promise<Stores> {
  if (databaseUrl === undefined) return openSqliteStores(databasePath, by, mayCreate)
  const { openPostgresStores } = await import('./postgres.ts')
  return openPostgresStores(databaseUrl, by, mayCreate)
}
