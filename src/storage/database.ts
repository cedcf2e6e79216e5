import { statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { codeOf, isDamage, StorageError, StorageNotReady } from '../errors.ts'
import { unixSeconds } from '../time.ts'
import { copyVerified, openToRead, whileOpen } from './copy.ts'
import { newerVersion, noDatabase, prepareFolder, requireDatabase, unwritable } from './data-folder.ts'
import { appliedMigrations, type Migration, migrations, type OnMigrated, unknownMigrations } from './migrations.ts'
import { keptLogBytes } from './wal.ts'
import { inTransaction, waitAsCommands } from './write-lock.ts'

/**
 * Opens the database file for reading and writing, and brings its schema up to date. A database with an older schema is first
 * backed up into the folder `backups` beside it.
 * @param mayCreate whether a database that does not exist is created, with its folder
 * @throws StorageError when the database cannot be opened or may not be created, or when a newer version has migrated the database; a
 *   `StorageNotReady` when another program has locked the database
 */
export function openDatabase(
  path: string,
  history: readonly Migration[] = migrations,
  onMigrated?: OnMigrated<Database.Database, void>,
  mayCreate = true,
): Database.Database {
  if (!mayCreate) requireDatabase(path)
  prepareFolder(dirname(path))
  // SQLite reports a folder with the same error as a file that this user may not read.
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
    throw new StorageError(`The database ${path} is a folder. Move it away, or set DATA_DIR to another folder.`)
  }
  let database: Database.Database | undefined
  try {
    database = new Database(path, { fileMustExist: !mayCreate })
    // The timeout comes first, because every later statement may have to wait for another process. WAL comes before any write.
    waitAsCommands(database)
    // An empty file has no migrations.
    if (!mayCreate && !appliedMigrations(database)) throw noDatabase(path)
    database.pragma('journal_mode = WAL')
    // In WAL mode, any setting below FULL would let a power cut undo acknowledged commits.
    database.pragma('synchronous = FULL')
    database.pragma('foreign_keys = ON')
    // SQLite truncates a large log to this size when it restarts the log.
    database.pragma(`journal_size_limit = ${keptLogBytes}`)
    migrate(database, history, onMigrated)
    return database
  } catch (error) {
    database?.close()
    throw openingError(path, error)
  }
}

/** The error for a failed opening, with a sentence that says what to change. */
function openingError(path: string, error: unknown): StorageError {
  if (error instanceof StorageError) return error
  if (error instanceof Error && isDamage(error)) return damagedFile(path, error)
  if (codeOf(error) === 'SQLITE_READONLY_DBMOVED')
    return new StorageError(`The database ${path} was replaced while it was opened. Try again.`, { cause: error })
  const refusal = unwritable(dirname(path), error)
  if (refusal) return refusal
  if (codeOf(error).startsWith('SQLITE_BUSY')) {
    return new StorageNotReady(`The database ${path} is held by another program. End that program, and try again.`, {
      cause: error,
    })
  }
  const reason = error instanceof Error ? error.message : String(error)
  return new StorageError(`The database ${path} cannot be opened: ${reason}.`, { cause: error })
}

function damagedFile(path: string, cause: Error): StorageError {
  const reason = `The database ${path} cannot be opened: ${cause.message}.`
  return new StorageError(`${reason} Restore a backup: conservatory restore FILE --force.`, { cause })
}

/**
 * Opens an empty temporary database to compute sums over another database. The other database is attached as `source`, and read
 * as one snapshot. SQLite keeps large contents in an unnamed file, and removes this file when the temporary database is closed or
 * the process ends.
 */
export function openScratch(path: string): Database.Database {
  const database = new Database('')
  // The temporary database needs no journal and no sync: no other connection reads it, and after a failure it is not used again.
  database.pragma('journal_mode = OFF')
  database.pragma('synchronous = OFF')
  database.prepare('ATTACH ? AS source').run(path)
  database.pragma('source.cache_size = -1000')
  database.exec('BEGIN')
  return database
}

/**
 * Applies the missing migrations. Several processes may call this function at the same time. A database with older migrations is
 * backed up first. The backup is named after the first missing migration, so several failed attempts leave only one backup.
 */
function migrate(
  database: Database.Database,
  history: readonly Migration[],
  onMigrated?: OnMigrated<Database.Database, void>,
): void {
  // Usually no migration is missing. Then the write lock is not taken, because a command that only reads must not wait for it.
  if (missingIn(database, history).missing.length === 0) return
  inTransaction(database, () => {
    database.exec('CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied INTEGER NOT NULL) STRICT')
    const { applied, missing } = missingIn(database, history)
    const [next] = missing
    if (next && applied.length > 0 && !database.memory) backUpBefore(next, database.name)
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
 * The names of the applied migrations, and the missing migrations.
 * @throws StorageError when this version does not know an applied migration
 */
function missingIn(database: Database.Database, history: readonly Migration[]) {
  const applied = appliedMigrations(database) ?? []
  const unknown = unknownMigrations(applied, history)
  if (unknown.length > 0) throw newerVersion('The database', unknown, 'Start that version.')
  return { applied, missing: history.filter(({ name }) => !applied.includes(name)) }
}

/** The newest of some migrations. The name of a migration begins with its number, so the newest is the last in sorted order. */
function newest(names: readonly string[]): string | undefined {
  return names.toSorted().at(-1)
}

/** Backs up a database before a migration. The caller has the write lock, so no other process writes during the backup. */
function backUpBefore({ name }: Migration, path: string): void {
  const folder = join(dirname(path), 'backups')
  prepareFolder(folder)
  // SQLite cannot copy from the caller's connection within its transaction.
  whileOpen(openToRead(path), (before) => copyVerified(before, join(folder, `before-${name}.db`), path))
}
