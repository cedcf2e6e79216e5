import { accessSync, closeSync, constants, existsSync, fsyncSync, openSync, realpathSync, rmSync } from 'node:fs'
import Database from 'better-sqlite3'
import { codeOf, isDamage, StorageError } from '../errors.ts'
import { isWindows } from './rights.ts'

/** What a database holds: the rows of each table. */
export type RowCounts = Readonly<Record<string, number>>

/** What SQLite keeps beside a database under its name. */
export const sidecarSuffixes = ['-wal', '-shm', '-journal'] as const

/**
 * Writes all of a database, with what is only in its log, into a new file of its own, down to the disk; checks what has
 * been written, and counts it. What is there under the file's name is removed.
 * @throws StorageError when what was written is not sound
 */
export function copyCounted(database: Database.Database, file: string, name: string): RowCounts {
  removeDatabase(file)
  // One step in one read transaction: a copy that goes page by page begins anew with every write.
  database.prepare('VACUUM INTO ?').run(file)
  syncFile(file)
  const written = openToRead(file, name)
  try {
    const fault = damageOf(written)
    if (fault !== undefined) throw new StorageError(`${name} is damaged: ${fault}.`)
    return countRows(written)
  } finally {
    written.close()
  }
}

/**
 * Opens a database file to read it, with what is in the log beside it; nothing of it changes.
 * @param name what it is called where it cannot be read
 * @throws StorageError when it is no database, or its folder would have to be written to read it
 */
export function openToRead(path: string, name = path): Database.Database {
  let database: Database.Database | undefined
  try {
    accessSync(path, constants.R_OK)
  } catch (error) {
    throw new StorageError(`This user may not read ${name}. Run this as the user that owns the file.`, { cause: error })
  }
  try {
    // Where a log is read, a connection that may write would put it into the file at its end; where there is none, one
    // that may not write would leave an empty log behind.
    database = new Database(path, { fileMustExist: true, readonly: hasLog(path) })
    database.prepare('SELECT 1 FROM sqlite_schema').get()
    return database
  } catch (error) {
    database?.close()
    throw unreadable(error, name)
  }
}

/** What is wrong with a database, all of which is read; undefined when nothing is. */
export function damageOf(database: Database.Database): string | undefined {
  try {
    const found = String(database.pragma('integrity_check(1)', { simple: true }))
    return found === 'ok' ? undefined : found.trim().replaceAll('\n', ' ')
  } catch (error) {
    if (error instanceof Error && isDamage(error)) return error.message
    throw error
  }
}

/** Removes a database file with all that SQLite keeps beside it. */
export function removeDatabase(path: string): void {
  for (const beside of ['', ...sidecarSuffixes]) rmSync(path + beside, { force: true })
}

/** Brings a file's bytes down to the disk. */
export function syncFile(path: string): void {
  // Windows brings down only what may be written.
  syncOpened(openSync(path, 'r+'))
}

/** Brings the names in a folder down to the disk; Windows does so by itself. */
export function syncFolder(path: string): void {
  if (!isWindows) syncOpened(openSync(path, 'r'))
}

function syncOpened(file: number): void {
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** SQLite keeps the log beside the file that a link leads to. */
function hasLog(path: string): boolean {
  return existsSync(`${realpathSync(path)}-wal`)
}

/** The refusal of a file that SQLite cannot read. */
function unreadable(error: unknown, name: string): StorageError {
  const code = codeOf(error)
  let fault = 'is no database that can be read.'
  if (code.startsWith('SQLITE_CORRUPT')) fault = 'is damaged.'
  if (code.startsWith('SQLITE_BUSY')) fault = 'is written to by another program. Try again when it has ended.'
  // A database that was in use, unlike a backup, has its log beside it, and SQLite more.
  if (/^SQLITE_(?:CANTOPEN|READONLY)/.test(code))
    fault = `cannot be read where it is, since this user may not write beside it. Copy it, and ${name}-wal where there is one, to another folder, and give that file.`
  return new StorageError(`${name} ${fault}`, { cause: error })
}

function countRows(database: Database.Database): RowCounts {
  const tables = database
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )
    .pluck()
    .all()
  const counts = tables.map((table): [string, number] => [
    table,
    database.prepare<[], number>(`SELECT count(*) FROM "${table}"`).pluck().get() ?? 0,
  ])
  return Object.fromEntries(counts)
}
