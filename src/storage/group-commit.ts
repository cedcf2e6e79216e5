import type { Database } from 'better-sqlite3'
import { ApiError, codeOf } from '../errors.ts'
import type { Metric } from '../instruments.ts'
import { batchSizes, operationDurations, writeQueueMetrics } from './metrics.ts'
import { accountGone, isForeignKeyViolation, toWriteError } from './write-error.ts'
import { afterLongWrite, mayWaitLonger } from './write-lock.ts'

/** A write in the queue. The caller of the write gets the result, or the refusal, after the commit. */
interface QueuedWrite {
  write(): unknown
  resolve(result: unknown): void
  reject(reason: unknown): void
  result?: unknown
  refusal?: ApiError
}

/**
 * The value of `PRAGMA synchronous`. A `FULL` commit waits for the disk. A `NORMAL` commit does not wait: a power cut may undo
 * the commit, but a crash of the process does not undo it.
 */
export type Durability = 'FULL' | 'NORMAL'

/** How long another program may lock the database before a service refuses writes. A command waits longer (`write-lock.ts`). */
const busyTimeoutMs = 5000
const retryIntervalMs = 20

/**
 * Group commit over SQLite: all writes of one turn of the event loop share one transaction. So they need at most one fsync, apart
 * from the fsyncs of a checkpoint. Writes run in the order of their arrival. Each caller gets its result after the commit.
 */
export class GroupCommit {
  readonly #database: Database
  readonly #durability: Durability
  #queue: QueuedWrite[] = []
  /** Since when the oldest queued write waits, by `performance.now()`. */
  #oldestSince = 0
  /** Each transaction has a new number. Between two writes that see the same number, no other connection changes the database. */
  transaction = 0
  #rollbacks = 0
  /** Since when another program has locked the database, by `performance.now()`. */
  #busySince: number | undefined
  readonly #sizes = batchSizes()
  readonly #durations = operationDurations()
  /** How many writes shared each commit, how long commits took, and how many writes wait. */
  readonly metrics: readonly Metric[] = [
    this.#sizes,
    this.#durations,
    ...writeQueueMetrics(() => ({
      length: this.#queue.length,
      oldestSince: this.#queue.length > 0 ? this.#oldestSince : undefined,
    })),
  ]

  constructor(database: Database, durability: Durability = 'FULL') {
    this.#database = database
    this.#durability = durability
  }

  /**
   * How many transactions were rolled back or could not begin. When this number changes, a cache that writes have updated may be
   * wrong.
   */
  get rollbacks(): number {
    return this.#rollbacks
  }

  /**
   * Runs a write in one transaction with the other writes of this turn.
   * @param write is synchronous. If `write` throws an `ApiError`, it must not have changed anything before. Only the caller of
   *   this `write` gets that error
   * @returns what `write` returns, after the commit
   * @throws the `ApiError` of `write`; ApiError 403 when the account was deleted, 507 when the disk is full, 503 when another
   *   program keeps the lock; any other error of the database unchanged
   */
  run<T>(write: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    if (this.#queue.length === 0) {
      this.#oldestSince = performance.now()
      setImmediate(this.#commitSoon)
    }
    this.#queue.push({ write, resolve, reject })
    return promise
  }

  /** Commits the queued writes now, before the database is closed. Blocks the event loop while another program has the lock. */
  flush(): void {
    this.#commit(true)
  }

  readonly #commitSoon = (): void => void afterLongWrite(this.#database, this.#commit)

  readonly #commit = (mayBlock = false): void => {
    const writes = this.#queue
    this.#queue = []
    if (writes.length === 0) return
    this.transaction++
    const began = this.#busySince ?? performance.now()
    try {
      if (this.#durability !== 'FULL') this.#database.exec(`PRAGMA synchronous = ${this.#durability}`)
      if (!this.#begin(mayBlock)) {
        this.#queue = [...writes, ...this.#queue]
        setTimeout(this.#commitSoon, retryIntervalMs)
        return
      }
      this.#writeAll(writes)
    } catch (thrown) {
      this.#rollbacks++
      if (this.#database.inTransaction) this.#database.exec('ROLLBACK')
      const error = toWriteError(thrown)
      for (const { reject } of writes) reject(error)
      return
    } finally {
      this.#endAttempt(began)
    }
    for (const { refusal, result, resolve, reject } of writes) {
      if (refusal) reject(refusal)
      else resolve(result)
    }
  }

  /** Records the duration of an attempt, unless another program has the lock, and restores the connection's durability. */
  #endAttempt(began: number): void {
    if (this.#busySince === undefined) this.#durations.record((performance.now() - began) / 1000, 'sqlite', 'write')
    // All other writes of this connection must wait for the disk. The pragma has an effect only outside a transaction.
    if (this.#durability !== 'FULL' && this.#database.open) this.#database.exec('PRAGMA synchronous = FULL')
  }

  /**
   * Runs the writes, keeps the result of each write, and commits the transaction.
   * @throws the error of a write that fails the whole transaction
   */
  #writeAll(writes: readonly QueuedWrite[]): void {
    for (const queued of writes) {
      try {
        queued.result = queued.write()
      } catch (thrown) {
        queued.refusal = this.#refusalOf(thrown)
      }
      if (!this.#database.inTransaction) throw rolledBack()
    }
    this.#database.exec('COMMIT')
    if (this.#database.inTransaction) throw new Error('SQLite has not committed the transaction.')
    this.#sizes.record(writes.length)
  }

  /**
   * The error for the caller of a failed write, if the other writes of the transaction can still be committed.
   * @throws an error that fails the whole transaction, if they cannot
   */
  #refusalOf(thrown: unknown): ApiError {
    const error = isForeignKeyViolation(thrown) ? accountGone(thrown) : thrown
    if (!(error instanceof ApiError)) throw error
    if (!this.#database.inTransaction) throw error.cause ?? rolledBack()
    return error
  }

  /** Whether to retry a transaction that could not begin because another program has the lock. */
  #mayRetry(error: unknown, began: number): boolean {
    const isInTime = codeOf(error) === 'SQLITE_BUSY' && performance.now() - began < busyTimeoutMs
    const mayRetry = mayWaitLonger(this.#database, error) || isInTime
    this.#busySince = mayRetry ? began : undefined
    return mayRetry
  }

  /**
   * Begins a transaction. While another program has the lock, SQLite blocks this whole process, at most for the `busy_timeout`.
   * @returns whether the transaction has begun; false when the caller should retry later
   */
  #begin(mayBlock: boolean): boolean {
    const began = this.#busySince ?? performance.now()
    for (;;) {
      try {
        this.#database.exec('BEGIN IMMEDIATE')
        this.#busySince = undefined
        return true
      } catch (error) {
        if (!this.#mayRetry(error, began)) throw error
        if (!mayBlock) return false
      }
    }
  }
}

/**
 * The error for a transaction that SQLite has rolled back by itself, for example on a full disk. The remaining writes must not
 * run after this: SQLite would commit each of them alone (sqlite.org/lang_transaction.html, section 3.1).
 */
function rolledBack(): Error {
  return new Error('SQLite has undone the transaction that this write belongs to.')
}
