import { setTimeout as wait, setImmediate as yieldTurn } from 'node:timers/promises'
import Sqlite, { type Database } from 'better-sqlite3'
import { codeOf } from '../errors.ts'
import { runOn, type Script } from './scripts.ts'
import { accountGone, isForeignKeyViolation, toWriteError } from './write-error.ts'
import { longWrites } from './write-lock.ts'

/*
 * Long transactions over SQLite: of more rows than one turn of the event loop should write. Such a transaction has a connection of
 * its own, and other requests run between its statements. They read the state before it, and their writes wait for its end
 * (`write-lock.ts`).
 */

/** How long a long transaction writes in one turn of the event loop. */
const maxTurnMs = 4
/** How long another program may lock the database. */
const busyTimeoutMs = 5000
const retryIntervalMs = 20

/** The end of the last long transaction in the queue, by database file. */
const queued = new Map<string, Promise<void>>()

/**
 * Runs a script in a long transaction, after the long transactions that came earlier. Resolves when it is on disk.
 * @param script gets the connection on which it runs
 * @throws the errors of the script; ApiError 403 when the account was deleted, 503 or 507 when the database cannot write
 */
export async function runLong<T>(database: Database, script: (connection: Database) => Script<T>): Promise<T> {
  const { name } = database
  const { promise: end, resolve } = Promise.withResolvers<void>()
  const earlier = queued.get(name)
  queued.set(name, end)
  try {
    await earlier
    // Writes that have waited for the earlier transaction come first.
    if (earlier) await yieldTurn()
    return await commit(name, end, script)
  } finally {
    // In the next turn, reads of the other connection see that the database has changed (`OutsideChanges`).
    await yieldTurn()
    if (queued.get(name) === end) queued.delete(name)
    resolve()
  }
}

async function commit<T>(name: string, end: Promise<void>, script: (connection: Database) => Script<T>): Promise<T> {
  const connection = new Sqlite(name, { fileMustExist: true })
  try {
    connection.pragma('synchronous = FULL')
    connection.pragma('foreign_keys = ON')
    connection.pragma('busy_timeout = 0')
    // With a small cache, pages go to the log during the transaction, and not all at its end.
    connection.pragma('cache_size = -2000')
    await begin(connection)
    longWrites.set(name, end)
    const result = await runInTurns(connection, script(connection))
    connection.exec('COMMIT')
    return result
  } catch (error) {
    throw isForeignKeyViolation(error) ? accountGone(error) : toWriteError(error)
  } finally {
    // Without a commit, this undoes the transaction.
    connection.close()
    longWrites.delete(name)
  }
}

async function begin(connection: Database): Promise<void> {
  const began = performance.now()
  for (;;) {
    try {
      connection.exec('BEGIN IMMEDIATE')
      return
    } catch (error) {
      if (codeOf(error) !== 'SQLITE_BUSY' || performance.now() - began > busyTimeoutMs) throw error
      await wait(retryIntervalMs)
    }
  }
}

/** Runs a script in portions, with other requests between its statements. Outside of a transaction, each statement reads a newer state. */
export async function runInTurns<T>(connection: Database, script: Script<T>): Promise<T> {
  const run = runOn(connection)
  let began = performance.now()
  for (;;) {
    const step = script.next()
    if (step.done) return step.value
    step.value(run)
    if (performance.now() - began < maxTurnMs) continue
    await yieldTurn()
    began = performance.now()
  }
}
