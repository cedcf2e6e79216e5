import { existsSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { codeOf, StorageNotReady } from '../errors.ts'
import { unwritable } from './data-folder.ts'

/** A file that one process has locked. */
export interface FileLock {
  release(): void
}

const serveLockName = 'serve.lock'
/** How long a service waits for a process that only checks the lock. */
const serveLockTimeoutMs = 100

// A database that nothing refers to is closed by the garbage collector, and its lock would end with it.
const heldLocks = new Set<Database.Database>()

/**
 * Locks a file, and creates the file when it does not exist. SQLite takes a lock of the operating system, so the lock also ends
 * when the process ends in any way. A lock whose object is dropped is kept until then.
 * @param waitMs how long to wait while another process has the lock, for example for the moment of a check (`isServed`)
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
  return {
    release() {
      heldLocks.delete(locked)
      locked.close()
    },
  }
}

/**
 * Locks a data folder for one service, until the lock is released or the process ends in any way. A restore and a move take this
 * lock too, so that no service starts meanwhile. Commands that may run beside the service do not need the lock.
 * @throws StorageNotReady when another process has the lock
 * @throws StorageError when the folder cannot be written
 */
export function lockForServing(folder: string): FileLock {
  let lock: FileLock | undefined
  try {
    lock = lockFile(join(folder, serveLockName), serveLockTimeoutMs)
  } catch (error) {
    throw unwritable(folder, error) ?? error
  }
  if (lock) return lock
  throw new StorageNotReady(
    `Another service uses the data folder ${folder} already. Stop it, or set DATA_DIR to another.`,
  )
}

/**
 * Whether a service, a restore or a move has the lock on a data folder. The result is also true when the check fails. The check
 * locks the file for a moment.
 */
export function isServed(folder: string): boolean {
  const path = join(folder, serveLockName)
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
