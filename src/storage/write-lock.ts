import type { Database } from 'better-sqlite3'
import { codeOf } from '../errors.ts'
import { tell } from '../print.ts'

/*
 * SQLite lets one connection write at a time, and whoever waits for that holds up its whole process. So the service waits
 * for a moment only, and lets others be served in between; a command has nothing else to do.
 */

/** Milliseconds that a connection waits for another one that writes, once it serves callers. */
const serviceWaitMs = 20
/** Milliseconds that a command waits before it says so, and in all. */
const silentWaitMs = 2000
const longestWaitMs = 30_000

/** Lets a connection wait for others that write, as commands do, until it serves callers. */
export function waitAsCommands(database: Database): void {
  database.pragma(`busy_timeout = ${silentWaitMs}`)
}

/** From now on the connection waits for others for a moment only. */
export function waitAsService(database: Database): void {
  database.pragma(`busy_timeout = ${serviceWaitMs}`)
}

/**
 * Does a write in a transaction of its own. A command waits for another program that writes, and says so on stderr.
 * @throws SQLite's error: SQLITE_BUSY where the other one took longer; and whatever the write throws
 */
export function inTransaction<T>(database: Database, write: () => T): T {
  const transaction = database.transaction(write)
  try {
    return transaction.immediate()
  } catch (error) {
    if (!mayWaitLonger(database, error)) throw error
    return transaction.immediate()
  }
}

/**
 * Tells whether a transaction that could not begin is to be tried once more, with more patience: a command's, which has waited in
 * silence so far, and says now what it waits for.
 */
export function mayWaitLonger(database: Database, error: unknown): boolean {
  if (codeOf(error) !== 'SQLITE_BUSY') return false
  if (database.pragma('busy_timeout', { simple: true }) !== silentWaitMs) return false
  tell(`Another program writes to the database. Waiting for it, ${longestWaitMs / 1000} s at most.`)
  // It is told once: from here on all waiting is a part of it.
  database.pragma(`busy_timeout = ${longestWaitMs - silentWaitMs}`)
  return true
}
