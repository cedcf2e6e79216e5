import { join } from 'node:path'
import Database from 'better-sqlite3'
import { codeOf, StorageError } from '../errors.ts'
import { unwritable } from './data-folder.ts'

/** A data folder held by one service. */
export interface ServeLock {
  release(): void
}

/**
 * Holds a data folder for one service, until it is released or the process ends in any way: the lock is the operating
 * system's, taken by SQLite on a file of its own. Commands that work beside the service do not ask for it.
 * @throws StorageError when another service holds the folder, or it cannot be written
 */
export function holdForServing(folder: string): ServeLock {
  let database: Database.Database | undefined
  try {
    database = new Database(join(folder, 'serve.lock'), { timeout: 0 })
    database.pragma('journal_mode = DELETE')
    database.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    database?.close()
    if (codeOf(error) !== 'SQLITE_BUSY') throw unwritable(folder, error) ?? error
    throw new StorageError(
      `Another service uses the data folder ${folder} already. Stop it, or set DATA_DIR to another.`,
    )
  }
  const held = database
  return {
    release() {
      held.close()
    },
  }
}
