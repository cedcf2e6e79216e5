import { existsSync } from 'node:fs'
import Database from 'better-sqlite3'
import { codeOf } from '../errors.ts'
import { removeDatabase } from './copy.ts'

/** A file that one process holds. */
export interface FileLock {
  /** Lets others hold it. */
  release(): void
  /** Removes the file, and lets it go. */
  remove(): void
}

/**
 * Holds a file, which is made where it is not there, until it is released or the process ends in any way: the lock is the
 * operating system's, taken by SQLite.
 * @param waitMs milliseconds for which it waits for another process, such as one that looks whether it is held
 * @returns undefined while another process holds it
 * @throws what SQLite says where the file cannot be written
 */
export function lockFile(path: string, waitMs = 0): FileLock | undefined {
  let database: Database.Database | undefined
  try {
    database = new Database(path, { timeout: waitMs })
    database.pragma('journal_mode = DELETE')
    database.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    database?.close()
    if (codeOf(error) === 'SQLITE_BUSY') return undefined
    throw error
  }
  const held = database
  return {
    release: () => void held.close(),
    remove() {
      held.close()
      removeDatabase(path)
    },
  }
}

/** Tells whether a process holds a file, which takes a lock of it for a moment; true where that is not to be known. */
export function isLocked(path: string): boolean {
  if (!existsSync(path)) return false
  let database: Database.Database | undefined
  try {
    database = new Database(path, { readonly: true, timeout: 0 })
    database.prepare('SELECT 1 FROM sqlite_schema').get()
    return false
  } catch {
    return true
  } finally {
    database?.close()
  }
}
