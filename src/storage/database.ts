import { statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { codeOf, isDamage, StorageError, StorageNotReady } from '../errors.ts'
import { unixSeconds } from '../time.ts'
import { openToRead } from './copy.ts'
import { newerVersion, prepareFolder, unwritable } from './data-folder.ts'
import { appliedMigrations, type Migration, migrations, type OnMigrated, unknownMigrations } from './migrations.ts'
import { copyVerified } from './verified-copy.ts'
import { keptLogBytes } from './wal.ts'
import { inTransaction, waitAsCommands } from './write-lock.ts'

/**
 * Opens the database file for reading and writing, and brings its schema up to date; what was there before is backed up
 * into the folder `backups` beside it.
 * @throws StorageError when the folder cannot be written or the file is not a database of ours; a `StorageNotReady` when
 *   another program holds its lock
 */
export function openDatabase(
  path: string,
  history: readonly Migration[] = migrations,
  onMigrated?: OnMigrated<Database.Database, void>,
): Database.Database {
  prepareFolder(dirname(path))
  // SQLite says the same of a folder as of a file that may not be read.
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
    throw new StorageError(`The database ${path} is a folder. Move it away, or set DATA_DIR to another folder.`)
  }
  let database: Database.Database | undefined
  try {
    database = new Database(path)
    // The timeout first, since every later statement may meet another process; WAL before any write.
    waitAsCommands(database)
    database.pragma('journal_mode = WAL')
    // FULL: in WAL mode anything less acknowledges commits that a power cut can take back.
    database.pragma('synchronous = FULL')
    database.pragma('foreign_keys = ON')
    // A log that was once large is cut when it begins anew.
    database.pragma(`journal_size_limit = ${keptLogBytes}`)
    migrate(database, history, onMigrated)
    return database
  } catch (error) {
    database?.close()
    if (error instanceof StorageError) throw error
    if (error instanceof Error && isDamage(error)) throw damagedFile(path, error)
    if (codeOf(error) === 'SQLITE_READONLY_DBMOVED')
      throw new StorageError(`The database ${path} was replaced while it was opened. Try again.`, { cause: error })
    const refusal = unwritable(dirname(path), error)
    if (refusal) throw refusal
    if (codeOf(error).startsWith('SQLITE_BUSY')) {
      throw new StorageNotReady(`The database ${path} is held by another program. End that, and try again.`, {
        cause: error,
      })
    }
    const reason = error instanceof Error ? error.message : String(error)
    throw new StorageError(`The database ${path} cannot be opened: ${reason}.`, { cause: error })
  }
}

/** The refusal of a database file that is damaged. */
function damagedFile(path: string, cause: Error): StorageError {
  const reason = `The database ${path} cannot be opened: ${cause.message}.`
  return new StorageError(`${reason} Restore a backup: conservatory restore FILE --force.`, { cause })
}

/**
 * Opens an empty database for what is reckoned from another, which is attached as `source` and read as it is at the first
 * read. It lies in a file without a name as far as it is large, and is gone when it is closed, or with the process.
 */
export function openScratch(path: string): Database.Database {
  const database = new Database('')
  // Nobody else reads it, and nobody reads it after a failure.
  database.pragma('journal_mode = OFF')
  database.pragma('synchronous = OFF')
  database.prepare('ATTACH ? AS source').run(path)
  database.pragma('source.cache_size = -1000')
  database.exec('BEGIN')
  return database
}

/**
 * Applies the migrations that this database has not seen; several processes may try at once. A database that has seen
 * some is backed up first: one copy for each next migration, however often that fails.
 */
function migrate(
  database: Database.Database,
  history: readonly Migration[],
  onMigrated?: OnMigrated<Database.Database, void>,
): void {
  // Nearly always there is nothing to do, and a command that only looks waits for nobody who writes.
  if (missingIn(database, history).missing.length === 0) return
  inTransaction(database, () => {
    database.exec('CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied INTEGER NOT NULL) STRICT')
    const { applied, missing } = missingIn(database, history)
    const [next] = missing
    if (next && applied.length > 0 && !database.memory) keepBefore(next, database.name)
    const record = database.prepare('INSERT INTO migrations (name, applied) VALUES (?, ?)')
    for (const { name, sql } of missing) {
      database.exec(sql)
      record.run(name, unixSeconds())
    }
    const [before, after] = [newest(applied), missing.at(-1)?.name]
    if (before !== undefined && after !== undefined) onMigrated?.(database, before, after)
  })
}

/**
 * The migrations that a database has seen, and the ones that it has not.
 * @throws StorageError where it has seen some that this version does not know
 */
function missingIn(database: Database.Database, history: readonly Migration[]) {
  const applied = appliedMigrations(database) ?? []
  const unknown = unknownMigrations(applied, history)
  if (unknown.length > 0) throw newerVersion('The database', unknown, 'Start that version.')
  return { applied, missing: history.filter(({ name }) => !applied.includes(name)) }
}

/** Names begin with their numbers. */
function newest(names: readonly string[]): string | undefined {
  return names.toSorted().at(-1)
}

/** Backs up a database that a migration is about to change. Nobody else writes to it meanwhile: the caller has its lock. */
function keepBefore({ name }: Migration, path: string): void {
  const folder = join(dirname(path), 'backups')
  prepareFolder(folder)
  // The connection of the caller is within its transaction, from which nothing can be copied.
  const before = openToRead(path)
  try {
    copyVerified(before, join(folder, `before-${name}.db`), path)
  } finally {
    before.close()
  }
}
