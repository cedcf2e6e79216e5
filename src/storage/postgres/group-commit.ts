import { ApiError, codeOf } from '../../errors.ts'
import type { Metric } from '../../instruments.ts'
import { batchSizes, writeQueueMetrics } from '../metrics.ts'
import type { PostgresDatabase, Transaction } from './database.ts'
import { Conflict, DatabaseTimeout, databaseUnavailable, writeUnconfirmed } from './failures.ts'
import { currentRequestTime, outsideRequest, type RequestTime } from './request-time.ts'

/** The most writes of one transaction. With so few writes, a retry is quick. */
const maxBatchSize = 500
/** The most writes that wait in the lane of one owner: a queue with only this owner's writes. Further writes are refused. */
const maxQueuedWrites = 1000
/** When this number of owners have a lane, idle lanes are removed before another lane is made. */
const maxLanes = 1000
/** How long an attempt at a batch waits for a lock. In the shared lane, the next attempt leaves out writes that need the lock. */
const lockTimeoutMs = 100
/** SQLSTATE lock_not_available. */
const lockNotAvailable = '55P03'

/** The result of a write that must wait for a lock. The owner of the write gets a lane, so that other writes are not delayed. */
export const awaitingLock = Symbol('awaiting lock')

/** An answer, a refusal, or `awaitingLock` while there is no answer and no refusal. */
type Result<Answer> = Answer | ApiError | typeof awaitingLock

/** How the writes of a batch are committed. */
export interface BatchWork<Write, Answer> {
  /**
   * Runs the writes in a transaction. A retry of the transaction calls this function again.
   * @param mayWait whether the transaction may wait for locks; otherwise writes that need a taken lock get `awaitingLock`
   * @returns a result for each write, in their order
   */
  commit(sql: Transaction, writes: readonly Write[], mayWait: boolean): Promise<readonly Result<Answer>[]>
  /** Called after each committed batch. */
  committed?(): void
  /**
   * The owner of a write, such as an account. A write needs the lock of its owner, and another transaction may keep this lock for
   * long. By default all writes share one lane.
   */
  ownerOf?(write: Write): unknown
}

/** A write in the queue. The time in the queue counts against the time limit of the write's request. */
class QueuedWrite<Write, Answer> {
  readonly write: Write
  /** Since when the write waits, by `performance.now()`. */
  readonly began = performance.now()
  /** When the time of the write is over, by `performance.now()`. */
  readonly end: number
  /** Whether the write has been answered. */
  isOver = false
  /** The result of the write in the batch that is about to commit. */
  result: Result<Answer> | undefined
  /** Whether the batch of the write is committing now. */
  isCommitting = false
  readonly #time: RequestTime | undefined
  readonly #resolve: (answer: Answer) => void
  readonly #reject: (reason: unknown) => void

  constructor(write: Write, timeoutMs: number, resolve: (answer: Answer) => void, reject: (reason: unknown) => void) {
    this.write = write
    this.#resolve = resolve
    this.#reject = reject
    this.#time = currentRequestTime()
    this.end = this.began + timeoutMs - (this.#time?.usedMs ?? 0)
    this.#time?.begin()
  }

  resolve(answer: Answer): void {
    if (this.#finish()) this.#resolve(answer)
  }

  reject(reason: unknown): void {
    if (this.#finish()) this.#reject(reason)
  }

  #finish(): boolean {
    if (this.isOver) return false
    this.isOver = true
    this.#time?.end()
    return true
  }
}

interface Lane<Write, Answer> {
  /** The owner of the writes; undefined for the shared lane. */
  readonly owner: unknown
  queue: QueuedWrite<Write, Answer>[]
  isRunning: boolean
  /** Whether the last batch was committed. If it was, the lock of the owner is free. */
  isFree: boolean
}

/** The sharer of all lanes of owners: together these lanes use at most two connections. */
const ownerLanes = {}

/**
 * Group commit over PostgreSQL: the writes that arrive while a transaction runs share the next transaction, with one round of
 * statements and one commit. Writes run in the order of their arrival. When another transaction keeps the lock of an owner for
 * long, the writes of that owner get a lane of their own until the lock is free. The time limit of a request includes the time
 * of its write in the queue.
 */
export class PostgresGroupCommit<Write, Answer> {
  readonly #database: PostgresDatabase
  readonly #work: BatchWork<Write, Answer>
  readonly #shared: Lane<Write, Answer> = { owner: undefined, queue: [], isRunning: false, isFree: true }
  readonly #lanes = new Map<unknown, Lane<Write, Answer>>()
  /** The writes of all lanes, in the order of their arrival. */
  readonly #unanswered = new Set<QueuedWrite<Write, Answer>>()
  #timer: NodeJS.Timeout | undefined
  /** When the timer is due, by `performance.now()`. */
  #timerEnd = 0
  readonly #sizes = batchSizes()
  /** How many writes shared each commit, and how many wait. */
  readonly metrics: readonly Metric[] = [
    this.#sizes,
    ...writeQueueMetrics(() => {
      const [oldest] = this.#unanswered
      return { length: this.#unanswered.size, oldestSince: oldest?.began }
    }),
  ]

  constructor(database: PostgresDatabase, work: BatchWork<Write, Answer>) {
    this.#database = database
    this.#work = work
  }

  /**
   * Runs a write in the next commit.
   * @returns the answer to the write, after the commit
   * @throws the refusal of the write, or the failure of the whole transaction; ApiError 503 `database_unavailable` when the time
   *   of the write is over before the commit, `write_unconfirmed` when the time is over during the commit
   */
  add(write: Write): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const queued = new QueuedWrite<Write, Answer>(write, this.#database.timeoutMs, resolve, reject)
      this.#unanswered.add(queued)
      this.#setTimer(queued.end)
      this.#enqueue(this.#laneOf(write), queued)
    })
  }

  /** Sets the timer to the end of a write's time, unless the timer is due earlier. All queued writes share one timer. */
  #setTimer(end: number): void {
    if (this.#timer && this.#timerEnd <= end) return
    clearTimeout(this.#timer)
    this.#timerEnd = end
    this.#timer = setTimeout(() => outsideRequest(() => this.#expire()), Math.max(0, end - performance.now())).unref()
  }

  #expire(): void {
    this.#timer = undefined
    // A timer may fire a little early.
    const now = performance.now() + 1
    for (const queued of this.#unanswered) {
      if (queued.end > now) this.#setTimer(queued.end)
      else {
        const reason = new DatabaseTimeout('the write waited for too long')
        // Before the commit, the write is left out of its batch.
        this.#refuse(queued, queued.isCommitting ? writeUnconfirmed(reason) : databaseUnavailable(reason))
      }
    }
  }

  #refuse(queued: QueuedWrite<Write, Answer>, reason: unknown): void {
    this.#unanswered.delete(queued)
    queued.reject(reason)
  }

  #laneOf(write: Write): Lane<Write, Answer> {
    if (this.#lanes.size === 0) return this.#shared
    return this.#lanes.get(this.#work.ownerOf?.(write)) ?? this.#shared
  }

  #enqueue(lane: Lane<Write, Answer>, queued: QueuedWrite<Write, Answer>): void {
    if (lane !== this.#shared && lane.queue.length >= maxQueuedWrites) {
      this.#refuse(queued, databaseUnavailable(new Error('the queue of this account is full')))
      return
    }
    lane.queue.push(queued)
    if (lane.isRunning) return
    lane.isRunning = true
    // The lane runs outside the request, because it goes on with writes of other requests.
    setImmediate(() => void outsideRequest(() => this.#run(lane)))
  }

  async #run(lane: Lane<Write, Answer>): Promise<void> {
    while (lane.queue.length > 0) {
      const batch = lane.queue.splice(0, maxBatchSize).filter(({ isOver }) => !isOver)
      if (batch.length === 0) continue
      try {
        await this.#commit(lane, batch)
        lane.isFree = true
        this.#answer(batch)
      } catch (error) {
        lane.isFree = false
        for (const queued of batch) this.#refuse(queued, error)
      }
    }
    lane.isRunning = false
    // An owner whose lock is still taken keeps its lane: in the shared lane, its next write would delay other owners again.
    if (lane.isFree) this.#lanes.delete(lane.owner)
  }

  /** Commits a batch. Each attempt leaves out the writes that have no time left. */
  async #commit(lane: Lane<Write, Answer>, batch: readonly QueuedWrite<Write, Answer>[]): Promise<void> {
    let written: readonly QueuedWrite<Write, Answer>[] = []
    let lockTimeouts = 0
    const attempt = async (sql: Transaction) => {
      for (const queued of batch) queued.result = undefined
      const taken = batch.filter(({ isOver }) => !isOver)
      try {
        await this.#runBatch(sql, taken, lane === this.#shared ? lockTimeouts : 0)
        written = taken.filter(({ result }) => result !== awaitingLock)
      } catch (error) {
        if (codeOf(error) === lockNotAvailable) lockTimeouts++
        throw error
      }
    }
    const beforeCommit = () => {
      // The caller of a write that is over already has the answer that nothing was written. So the batch is retried without it.
      if (written.some(({ isOver }) => isOver)) throw new Conflict()
      for (const queued of written) queued.isCommitting = true
    }
    const afterCommit = () => {
      for (const queued of written) queued.isCommitting = false
    }
    const latest = Math.max(...batch.map(({ end }) => end))
    await this.#database.transaction(attempt, latest - performance.now(), {
      ...(lane === this.#shared ? { lane: this } : { sharer: ownerLanes }),
      ...(this.#work.ownerOf && { lockTimeoutMs }),
      beforeCommit,
      afterCommit,
    })
    if (written.length > 0) {
      this.#sizes.record(written.length)
      this.#work.committed?.()
    }
  }

  /**
   * Runs the writes of a batch.
   * @param lockTimeouts how often the batch has timed out at a lock. After the first time, writes that need a taken lock are left
   *   out; after the second time, all writes are left out
   */
  async #runBatch(sql: Transaction, taken: readonly QueuedWrite<Write, Answer>[], lockTimeouts: number): Promise<void> {
    if (lockTimeouts > 1) for (const queued of taken) queued.result = awaitingLock
    if (lockTimeouts > 1 || taken.length === 0) return
    const writes = taken.map(({ write }) => write)
    const results = await this.#work.commit(sql, writes, lockTimeouts === 0)
    for (const [index, queued] of taken.entries()) queued.result = results[index]
  }

  #answer(batch: readonly QueuedWrite<Write, Answer>[]): void {
    const left: QueuedWrite<Write, Answer>[] = []
    for (const queued of batch) {
      const { result } = queued
      if (result === awaitingLock) left.push(queued)
      else {
        this.#unanswered.delete(queued)
        if (result === undefined) queued.reject(new Error('a write of the batch has no answer'))
        else if (result instanceof ApiError) queued.reject(result)
        else queued.resolve(result)
      }
    }
    if (left.length > 0) this.#moveToLanes(left)
  }

  /** Gives the owners of these writes lanes of their own. */
  #moveToLanes(writes: readonly QueuedWrite<Write, Answer>[]): void {
    for (const { write } of writes) {
      const owner = this.#work.ownerOf?.(write)
      if (this.#lanes.has(owner)) continue
      this.#dropIdleLanes()
      this.#lanes.set(owner, { owner, queue: [], isRunning: false, isFree: false })
    }
    // The queued writes move too, so that the writes of one owner keep their order.
    const toMove = [...writes, ...this.#shared.queue]
    this.#shared.queue = []
    for (const each of toMove) this.#enqueue(this.#laneOf(each.write), each)
  }

  #dropIdleLanes(): void {
    for (const [owner, { isRunning }] of this.#lanes) {
      if (this.#lanes.size < maxLanes) return
      if (!isRunning) this.#lanes.delete(owner)
    }
  }
}
