import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { codeOf, isDamage, StorageError } from '../errors.ts'
import { type FileLock, lockFile } from './file-lock.ts'
import { isWindows, realPathOf } from './rights.ts'

/** The number of rows of each table. */
export type RowCounts = Readonly<Record<string, number>>

/** The suffixes of the files that SQLite keeps beside a database. */
export const sidecarSuffixes = ['-wal', '-shm', '-journal'] as const

/** The temporary files of a copy that is being written. */
interface UnfinishedCopy {
  /** The file that is renamed to the final name of the copy. */
  readonly part: string
  /** The file that the copy is restored to as a test. */
  readonly scratch: string
  /** Removes both files, if they exist, and the lock. */
  end(): void
}

const lockEnding = '.part.lock'

/**
 * Copies a database into a temporary file, restores the copy to a scratch file as a test, and then renames the copy to the
 * target. An older target is replaced. So the file under the target's name is complete at any moment.
 * @param name the name of the database in messages
 * @returns the number of rows of each table of the copy
 * @throws StorageError when the copy is damaged, or another process writes the same target; the error of SQLite or the system
 *   when the copy cannot be written
 */
export function copyVerified(database: Database.Database, target: string, name: string): RowCounts {
  const copy = beginCopy(target)
  try {
    const contents = copyCounted(database, copy.part, name)
    const restored = whileOpen(openToRead(copy.part, name), (part) => copyCounted(part, copy.scratch, name))
    if (JSON.stringify(restored) !== JSON.stringify(contents))
      throw new StorageError('The restored backup differs from the copy, so the copy was removed. Try again.')
    renameSync(copy.part, target)
    syncFolder(dirname(target))
    return contents
  } finally {
    copy.end()
  }
}

/**
 * Begins a copy with this final name. The process keeps a lock until the copy ends. So temporary files without a lock come from a
 * process that was killed.
 * @throws StorageError when another process writes a copy of this name
 */
export function beginCopy(target: string): UnfinishedCopy {
  const lock = lockFile(target + lockEnding)
  if (!lock) throw new StorageError(`Another program writes ${target} already. Wait for it, or name another file.`)
  return unfinished(target, lock)
}

function unfinished(target: string, lock: FileLock): UnfinishedCopy {
  const [part, scratch] = [`${target}.part`, `${target}.scratch`]
  return {
    part,
    scratch,
    end() {
      for (const file of [part, scratch]) removeDatabase(file)
      lock.release()
      removeDatabase(target + lockEnding)
    },
  }
}

/** Removes the temporary files of copies from a folder, if the process that wrote them no longer runs. */
export function removeDeadCopies(folder: string): void {
  if (!existsSync(folder)) return
  for (const name of readdirSync(folder)) {
    if (!name.endsWith(lockEnding)) continue
    const target = join(folder, name.slice(0, -lockEnding.length))
    const lock = lockFile(target + lockEnding)
    if (lock) unfinished(target, lock).end()
  }
}

/**
 * Removes an older file of the same name. Then copies a database and its log into one new file, syncs the file to disk, checks
 * the copy, and counts the rows of the copy.
 * @param name the name of the database in messages
 * @throws StorageError when the copy is damaged
 */
export function copyCounted(database: Database.Database, file: string, name: string): RowCounts {
  removeDatabase(file)
  // VACUUM INTO is one read transaction. SQLite's backup API copies page by page, and restarts when another process writes.
  database.prepare('VACUUM INTO ?').run(file)
  syncFile(file)
  return whileOpen(openToRead(file, name), (written) => {
    const fault = damageOf(written)
    if (fault !== undefined) throw new StorageError(`${name} is damaged: ${fault}.`)
    return countRows(written)
  })
}

/** Works with a database, and closes it. */
export function whileOpen<T>(database: Database.Database, work: (database: Database.Database) => T): T {
  try {
    return work(database)
  } finally {
    database.close()
  }
}

/**
 * Opens a database file to read the file and its log. The database file and the log do not change.
 * @param name the name of the database in messages
 * @throws StorageError when the file is not a readable database, or this user does not have the rights that reading it needs
 */
export function openToRead(path: string, name = path): Database.Database {
  let database: Database.Database | undefined
  try {
    accessSync(path, constants.R_OK)
  } catch (error) {
    throw new StorageError(`This user may not read ${name}. Run this as the user that owns the file.`, { cause: error })
  }
  try {
    // If there is a log, a writable connection would checkpoint the log into the file when the connection closes. If there is no
    // log, a read-only connection would leave an empty log behind.
    database = new Database(path, { fileMustExist: true, readonly: existsSync(`${realPathOf(path)}-wal`) })
    database.prepare('SELECT 1 FROM sqlite_schema').get()
    return database
  } catch (error) {
    database?.close()
    throw unreadable(error, name)
  }
}

/** Reads the whole database. @returns the first fault; undefined when there is none */
export function damageOf(database: Database.Database): string | undefined {
  try {
    const found = String(database.pragma('integrity_check(1)', { simple: true }))
    return found === 'ok' ? undefined : found.trim().replaceAll('\n', ' ')
  } catch (error) {
    if (error instanceof Error && isDamage(error)) return error.message
    throw error
  }
}

/** Removes a database file and SQLite's files beside it. */
export function removeDatabase(path: string): void {
  for (const suffix of ['', ...sidecarSuffixes]) rmSync(path + suffix, { force: true })
}

/** Syncs a file to disk. */
export function syncFile(path: string): void {
  // Windows syncs only files that are open for writing.
  syncOpened(openSync(path, 'r+'))
}

/** Syncs the names of the files in a folder to disk. On Windows this does nothing: Windows needs no such sync. */
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

function unreadable(error: unknown, name: string): StorageError {
  const code = codeOf(error)
  let fault = 'is no database that can be read.'
  if (code.startsWith('SQLITE_CORRUPT')) fault = 'is damaged.'
  if (code.startsWith('SQLITE_BUSY')) fault = 'is written to by another program. Try again when it has ended.'
  // A database that was in use has a log in the same folder. To read the log, SQLite creates a file in that folder.
  if (/^SQLITE_(?:CANTOPEN|READONLY)/.test(code))
    fault = `cannot be read where it is, since this user may not write beside it. Copy it, and ${name}-wal where there is one, to another folder, and give that file.`
  return new StorageError(`${name} ${fault}`, { cause: error })
}

/** The names of the tables of a database in the order in which they were made, without SQLite's own. */
export function tablesIn(database: Database.Database): readonly string[] {
  return database
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid",
    )
    .pluck()
    .all()
}

function countRows(database: Database.Database): RowCounts {
  const counts = tablesIn(database)
    .toSorted()
    .map((table): [string, number] => [
      table,
      database.prepare<[], number>(`SELECT count(*) FROM "${table}"`).pluck().get() ?? 0,
    ])
  return Object.fromEntries(counts)
}
