import type { Database } from 'better-sqlite3'
import { codeOf } from '../errors.ts'
import { printNotice } from '../print.ts'

/*
 * SQLite lets one connection write at a time, and a connection that waits for the write lock blocks its whole process. So the
 * service waits only for a moment. After that, a group commit lets other requests run and tries again later. Any other write
 * fails with SQLITE_BUSY. A command has no other work, so it waits longer.
 */

/** How long a connection of a service waits for the write lock. */
const serviceWaitMs = 20
/** How long a command waits before it reports the wait, and how long it waits in all. */
const silentWaitMs = 2000
const maxWaitMs = 30_000

/** Lets a connection wait for the write lock as a command does. */
export function waitAsCommands(database: Database): void {
  database.pragma(`busy_timeout = ${silentWaitMs}`)
}

/** Lets a connection wait for the write lock only for a moment, as a service does. */
export function waitAsService(database: Database): void {
  database.pragma(`busy_timeout = ${serviceWaitMs}`)
}

/** The ends of the long transactions of this process that have the write lock (`long-write.ts`), by database file. None rejects. */
export const longWrites = new Map<string, Promise<void>>()

/** Runs a write at once, or when no long transaction of this process has the lock: waiting in SQLite would block that transaction. */
export function afterLongWrite<T>(database: Database, write: () => T): T | Promise<T> {
  return longWrites.get(database.name)?.then(() => afterLongWrite(database, write)) ?? write()
}

/**
 * Runs a write in a transaction of its own. A command that waits for another program reports the wait on stderr.
 * @throws SQLITE_BUSY when the other program keeps the lock for too long; otherwise the error of `write`
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
 * Whether a command should retry a transaction that could not begin. At the first failure of a command, this function reports
 * the wait, and raises the timeout. It returns false for a service, and at the second failure.
 */
export function mayWaitLonger(database: Database, error: unknown): boolean {
  if (codeOf(error) !== 'SQLITE_BUSY') return false
  if (database.pragma('busy_timeout', { simple: true }) !== silentWaitMs) return false
  printNotice(`Another program writes to the database. Waiting for it, ${maxWaitMs / 1000} s at most.`)
  // The higher timeout also marks that the wait has been reported.
  database.pragma(`busy_timeout = ${maxWaitMs - silentWaitMs}`)
  return true
}
