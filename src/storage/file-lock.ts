import { existsSync } from 'node:fs'
import Database from 'better-sqlite3'
import { codeOf } from '../errors.ts'
import { removeDatabase } from './copy.ts'

/** A file that one process has locked. */
export interface FileLock {
  release(): void
  /** Releases the lock, and removes the file. */
  remove(): void
}

// A database that nothing refers to is closed by the garbage collector, and its lock would end with it.
const heldLocks = new Set<Database.Database>()

/**
 * Locks a file, and creates the file when it does not exist. SQLite takes a lock of the operating system, so the lock also ends
 * when the process ends in any way. A lock whose object is dropped is kept until then.
 * @param waitMs how long to wait while another process has the lock, for example for the moment of a check (`isLocked`)
 * @returns undefined when another process has the lock
 * @throws SQLite's error when the file cannot be written
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
  const locked = database
  heldLocks.add(locked)
  const release = () => {
    heldLocks.delete(locked)
    locked.close()
  }
  return {
    release,
    remove() {
      release()
      removeDatabase(path)
    },
  }
}

/** Whether a process has locked a file. The result is also true when the check fails. The check locks the file for a moment. */
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
