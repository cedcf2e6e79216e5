import { statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { unixSeconds } from '../time.ts'
import { prepareFolder, StorageError, unwritable } from './folder.ts'
import { type Migration, migrations } from './migrations.ts'

/**
 * Opens the database file for reading and writing, and brings its schema up to date; what was there before is backed up
 * into the folder `backups` beside it.
 * @throws StorageError when the folder cannot be written or the file is not a database of ours
 */
export function openDatabase(path: string, history: readonly Migration[] = migrations): Database.Database {
  prepareFolder(dirname(path))
  // SQLite says the same of a folder as of a file that may not be read.
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
    throw new StorageError(`The database ${path} is a folder. Move it away, or set DATA_DIR to another folder.`)
  }
  let database: Database.Database | undefined
  try {
    database = new Database(path)
    // The timeout first, since every later statement may meet another process; WAL before any write.
    database.pragma('busy_timeout = 5000')
    database.pragma('journal_mode = WAL')
    // FULL: in WAL mode anything less acknowledges commits that a power cut can take back.
    database.pragma('synchronous = FULL')
    database.pragma('foreign_keys = ON')
    keepBeforeMigrating(database, history)
    migrate(database, history)
    return database
  } catch (error) {
    database?.close()
    if (error instanceof StorageError) throw error
    const refusal = unwritable(dirname(path), error)
    if (refusal) throw refusal
    const reason = error instanceof Error ? error.message : String(error)
    throw new StorageError(`The database ${path} cannot be opened: ${reason}.`, { cause: error })
  }
}

/** Opens a second connection that only reads, for a list that keeps one snapshot while others write. */
export function openSnapshot(path: string): Database.Database {
  const database = new Database(path, { readonly: true })
  // It reads each page of the file once: what it keeps of them, 1 MB here instead of 16, is read by nobody.
  database.pragma('cache_size = -1000')
  database.exec('BEGIN')
  return database
}

/** Copies a database whose schema is about to change; a new one, and one that is up to date, need no copy. */
function keepBeforeMigrating(database: Database.Database, history: readonly Migration[]): void {
  const isOurs = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").get() !== undefined
  if (!isOurs || database.memory) return
  const applied = new Set(database.prepare<[], string>('SELECT name FROM migrations').pluck().all())
  const next = history.find(({ name }) => !applied.has(name))
  if (applied.size === 0 || !next) return
  const folder = join(dirname(database.name), 'backups')
  prepareFolder(folder)
  const file = join(folder, `before-${next.name}-${Date.now()}.db`)
  database.prepare('VACUUM INTO ?').run(file)
}

/** Applies the migrations that this database has not seen; several processes may try at once. */
function migrate(database: Database.Database, history: readonly Migration[]): void {
  database.exec('CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied INTEGER NOT NULL) STRICT')
  const applyAll = database.transaction(() => {
    const applied = new Set(database.prepare<[], string>('SELECT name FROM migrations').pluck().all())
    const known = new Set(history.map((migration) => migration.name))
    const unknown = [...applied].filter((name) => !known.has(name))
    if (unknown.length > 0) {
      throw new StorageError(
        `The database was written by a newer version of Conservatory (it has ${unknown.join(', ')}). Start that version.`,
      )
    }
    const record = database.prepare('INSERT INTO migrations (name, applied) VALUES (?, ?)')
    for (const migration of history) {
      if (applied.has(migration.name)) continue
      database.exec(migration.sql)
      record.run(migration.name, unixSeconds())
    }
  })
  applyAll.immediate()
}
