import type { Database } from 'better-sqlite3'
import { ApiError, codeOf } from '../errors.ts'
import type { Metric } from '../instruments.ts'
import { answerTimes } from './answer-times.ts'
import { batchSizes } from './batch-sizes.ts'
import { accountGone, isOrphan, toWriteError } from './write-error.ts'
import { waitsOn } from './write-lock.ts'
import { writeQueue } from './write-queue.ts'

/** A write that waits, and what its caller is told of it once the transaction is on disk. */
interface Waiting {
  write(): unknown
  resolve(result: unknown): void
  reject(reason: unknown): void
  result?: unknown
  refusal?: ApiError
}

/** What a commit waits for: `FULL`, the disk; `NORMAL`, nothing, and a power cut may take it back, but no end of the process. */
export type Durability = 'FULL' | 'NORMAL'

/** Milliseconds for which another program may hold the database before writes are refused, and between two looks. */
const patience = 5000
const betweenLooks = 20

/**
 * Lets all writes that wait in one turn of the event loop share one transaction, and so one fsync. Each caller gets its
 * own answer, and only when the transaction is on disk; writes are done in the order in which they came.
 */
export class GroupCommit {
  readonly #database: Database
  readonly #durability: Durability
  #waiting: Waiting[] = []
  /** Since when the oldest of them waits. */
  #oldestSince = 0
  /** Another number in each transaction: what was read in this one stays true, unless one of its own writes changes it. */
  transaction = 0
  #rollbacks = 0
  /** Since when another program has held the database. */
  #busySince: number | undefined
  readonly #sizes = batchSizes()
  readonly #times = answerTimes()
  /** How many writes shared each commit that was made, how long that took, and which writes wait. */
  readonly metrics: readonly Metric[] = [
    this.#sizes,
    this.#times,
    ...writeQueue(() => ({
      length: this.#waiting.length,
      oldestSince: this.#waiting.length > 0 ? this.#oldestSince : undefined,
    })),
  ]

  constructor(database: Database, durability: Durability = 'FULL') {
    this.#database = database
    this.#durability = durability
  }

  /** How many transactions came to nothing: what was noted of their writes is not so. */
  get rollbacks(): number {
    return this.#rollbacks
  }

  /**
   * Does a write with the others of this turn.
   * @param write synchronous; when it throws an `ApiError` it must not have changed anything, and only its caller is told
   * @throws ApiError 507 when the disk is full, and whatever else the database says
   */
  run<T>(write: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    if (this.#waiting.length === 0) {
      this.#oldestSince = performance.now()
      setImmediate(this.#commit)
    }
    this.#waiting.push({ write, resolve, reject })
    return promise
  }

  /** Commits what waits now, as before the database is closed; nobody is served while another program holds it. */
  flush(): void {
    this.#commit(true)
  }

  readonly #commit = (mayBlock = false): void => {
    const writes = this.#waiting
    this.#waiting = []
    if (writes.length === 0) return
    this.transaction++
    const began = this.#busySince ?? performance.now()
    try {
      if (this.#durability !== 'FULL') this.#database.exec(`PRAGMA synchronous = ${this.#durability}`)
      if (!this.#begin(mayBlock)) {
        this.#waiting = [...writes, ...this.#waiting]
        setTimeout(this.#commit, betweenLooks)
        return
      }
      this.#write(writes)
    } catch (thrown) {
      this.#rollbacks++
      if (this.#database.inTransaction) this.#database.exec('ROLLBACK')
      const error = toWriteError(thrown)
      for (const { reject } of writes) reject(error)
      return
    } finally {
      this.#leave(began)
    }
    for (const { refusal, result, resolve, reject } of writes) {
      if (refusal) reject(refusal)
      else resolve(result)
    }
  }

  /** Counts how long a try took that did not find the database held by another program, and sets the connection back. */
  #leave(began: number): void {
    if (this.#busySince === undefined) this.#times.record((performance.now() - began) / 1000, 'sqlite', 'write')
    // Every other write of this connection waits for the disk. Outside a transaction only, where it has an effect.
    if (this.#durability !== 'FULL' && this.#database.open) this.#database.exec('PRAGMA synchronous = FULL')
  }

  /**
   * Does the writes, notes of each what its caller is told, and commits them.
   * @throws what one has failed with, where none of them is to be
   */
  #write(writes: readonly Waiting[]): void {
    for (const waiting of writes) {
      try {
        waiting.result = waiting.write()
      } catch (thrown) {
        waiting.refusal = this.#refusalOf(thrown)
      }
      if (!this.#database.inTransaction) throw undone()
    }
    this.#database.exec('COMMIT')
    if (this.#database.inTransaction) throw new Error('SQLite has not committed the transaction.')
    this.#sizes.record(writes.length)
  }

  /**
   * What the caller of a write that failed is told, where the writes beside it go on.
   * @throws what it failed with, where they do not
   */
  #refusalOf(thrown: unknown): ApiError {
    const error = isOrphan(thrown) ? accountGone(thrown) : thrown
    if (!(error instanceof ApiError)) throw error
    if (!this.#database.inTransaction) throw error.cause ?? undone()
    return error
  }

  /** Whether the database may be free later, where a transaction could not begin. */
  #mayComeFree(error: unknown, began: number): boolean {
    const isWorthWaiting = codeOf(error) === 'SQLITE_BUSY' && performance.now() - began < patience
    const mayComeFree = waitsOn(this.#database, error) || isWorthWaiting
    this.#busySince = mayComeFree ? began : undefined
    return mayComeFree
  }

  /**
   * Begins a transaction. While another program holds the database SQLite holds up the whole process, for as long as it was
   * told to.
   * @returns whether it has begun; false where that is to be tried again
   */
  #begin(mayBlock: boolean): boolean {
    const began = this.#busySince ?? performance.now()
    for (;;) {
      try {
        this.#database.exec('BEGIN IMMEDIATE')
        this.#busySince = undefined
        return true
      } catch (error) {
        if (!this.#mayComeFree(error, began)) throw error
        if (!mayBlock) return false
      }
    }
  }
}

/**
 * What is wrong where the transaction goes on no longer: SQLite undoes it by itself where there is no room, say, and each write
 * that came next would be committed for itself (sqlite.org/lang_transaction.html, section 3.1).
 */
function undone(): Error {
  return new Error('SQLite has undone the transaction that this write belongs to.')
}
