import { ApiError, codeOf } from '../../errors.ts'
import type { Metric } from '../../instruments.ts'
import { batchSizes } from '../batch-sizes.ts'
import { writeQueue } from '../write-queue.ts'
import { askedByNobody, currentTime, type WaitingTime } from './asker.ts'
import type { PostgresDatabase, Transaction } from './database.ts'
import { Conflict, databaseUnavailable, TookTooLong } from './failures.ts'

/** Writes of one transaction at most, so that a batch is quick to repeat. */
const largest = 500
/** Writes that wait in one of the lanes beside the shared one; more are refused. */
const longestQueue = 1000
/** Lanes beside the shared one that are remembered. */
const mostLanes = 1000
/** Milliseconds for which a transaction of the plants waits for a lock before it looks whose that is. */
const lockPatience = 100
/** SQLSTATE lock_not_available. */
const lockNotAvailable = '55P03'

/** What a work answers for a write that must wait for a lock: it gets a lane where it holds up nobody else. */
export const setAside = Symbol('set aside')

/** An answer, a refusal, or neither yet. */
type Answered<Answer> = Answer | ApiError | typeof setAside

/** What is done with the writes of a batch. */
export interface BatchWork<Write, Answer> {
  /**
   * Does writes in a transaction, which may run several times.
   * @param mayWait whether it may wait for locks; else it sets aside what needs them
   * @returns an answer, or a refusal, for each
   */
  commit(sql: Transaction, writes: readonly Write[], mayWait: boolean): Promise<readonly Answered<Answer>[]>
  /** Hears that the last transaction is committed. */
  committed?(): void
  /** Whose a write is, of those that may hold a lock for long. Without it nobody's writes are set aside. */
  ownerOf?(write: Write): unknown
}

/** A write that waits, and its part of the time that its request has. */
class Waiting<Write, Answer> {
  readonly write: Write
  /** Since when it waits, by `performance.now()`. */
  readonly began = performance.now()
  /** By `performance.now()`. */
  readonly end: number
  /** Whether it has been answered. */
  isOver = false
  /** What the batch that is about to commit has found for it. */
  found: Answered<Answer> | undefined
  /** The batch that is about to commit it. */
  committing: { readonly giveUp: () => void } | undefined
  readonly #time: WaitingTime | undefined
  readonly #resolve: (answer: Answer) => void
  readonly #reject: (reason: unknown) => void

  constructor(write: Write, patience: number, resolve: (answer: Answer) => void, reject: (reason: unknown) => void) {
    this.write = write
    this.#resolve = resolve
    this.#reject = reject
    this.#time = currentTime()
    this.end = this.began + patience - (this.#time?.usedMs ?? 0)
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
  /** Undefined for the lane that all share. */
  readonly owner: unknown
  waiting: Waiting<Write, Answer>[]
  isRunning: boolean
  /** Whether its owner's locks could be had when it last ran. */
  isFree: boolean
}

/** Where the lanes beside the shared ones have their connections: two for all of them. */
const aside = {}

/**
 * Lets the writes that come while a transaction is under way share the next one: one round of statements and one commit
 * for all of them. They are done in the order in which they came. An owner whose lock somebody else holds for long gets a
 * lane of its own, until that lock is free. A write waits for so long as a request may, its time in the queue counted.
 */
export class Batches<Write, Answer> {
  readonly #database: PostgresDatabase
  readonly #work: BatchWork<Write, Answer>
  readonly #shared: Lane<Write, Answer> = { owner: undefined, waiting: [], isRunning: false, isFree: true }
  readonly #lanes = new Map<unknown, Lane<Write, Answer>>()
  /** In the order in which they came, whichever lane they wait in. */
  readonly #unanswered = new Set<Waiting<Write, Answer>>()
  #timer: NodeJS.Timeout | undefined
  /** When that is due, by `performance.now()`. */
  #nextEnd = 0
  readonly #sizes = batchSizes()
  /** How many writes shared each commit that was made, and which writes wait. */
  readonly metrics: readonly Metric[] = [
    this.#sizes,
    ...writeQueue(() => {
      const [oldest] = this.#unanswered
      return { length: this.#unanswered.size, oldestSince: oldest?.began }
    }),
  ]

  constructor(database: PostgresDatabase, work: BatchWork<Write, Answer>) {
    this.#database = database
    this.#work = work
  }

  /**
   * Does a write with others.
   * @throws ApiError its refusal, or what was wrong with the whole transaction; 503 `database_unavailable` when its time is
   *   over before the commit, `write_unconfirmed` after
   */
  add(write: Write): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const waiting = new Waiting<Write, Answer>(write, this.#database.patience, resolve, reject)
      this.#unanswered.add(waiting)
      this.#watch(waiting.end)
      this.#enqueue(this.#laneOf(write), waiting)
    })
  }

  /** Ends waits whose time is over. One timer for all: the first end is looked for only when it has come. */
  #watch(end: number): void {
    if (this.#timer && this.#nextEnd <= end) return
    clearTimeout(this.#timer)
    this.#nextEnd = end
    this.#timer = setTimeout(() => askedByNobody(() => this.#expire()), Math.max(0, end - performance.now())).unref()
  }

  #expire(): void {
    this.#timer = undefined
    // A timer may come a little early.
    const now = performance.now() + 1
    for (const waiting of this.#unanswered) {
      if (waiting.end > now) this.#watch(waiting.end)
      // Alone as long as it can be left out, and with its batch while that commits.
      else if (waiting.committing) waiting.committing.giveUp()
      else this.#refuse(waiting, databaseUnavailable(new TookTooLong('the write waited for too long')))
    }
  }

  #refuse(waiting: Waiting<Write, Answer>, reason: unknown): void {
    this.#unanswered.delete(waiting)
    waiting.reject(reason)
  }

  #laneOf(write: Write): Lane<Write, Answer> {
    if (this.#lanes.size === 0) return this.#shared
    return this.#lanes.get(this.#work.ownerOf?.(write)) ?? this.#shared
  }

  #enqueue(lane: Lane<Write, Answer>, waiting: Waiting<Write, Answer>): void {
    if (lane !== this.#shared && lane.waiting.length >= longestQueue) {
      this.#refuse(waiting, databaseUnavailable(new Error('as many writes of this account wait as may')))
      return
    }
    lane.waiting.push(waiting)
    if (lane.isRunning) return
    lane.isRunning = true
    // It goes on with the writes of others.
    setImmediate(() => void askedByNobody(() => this.#run(lane)))
  }

  async #run(lane: Lane<Write, Answer>): Promise<void> {
    while (lane.waiting.length > 0) {
      const batch = lane.waiting.splice(0, largest).filter(({ isOver }) => !isOver)
      if (batch.length === 0) continue
      try {
        await this.#commit(lane, batch)
        lane.isFree = true
        this.#answer(batch)
      } catch (error) {
        lane.isFree = false
        for (const waiting of batch) this.#refuse(waiting, error)
      }
    }
    lane.isRunning = false
    // An owner whose lock was not to be had keeps its lane: the next write would hold up the others again.
    if (lane.isFree) this.#lanes.delete(lane.owner)
  }

  /** Does a batch, without what has no time left when a try of it begins. */
  async #commit(lane: Lane<Write, Answer>, batch: readonly Waiting<Write, Answer>[]): Promise<void> {
    const { promise: until, reject: giveUp } = Promise.withResolvers<never>()
    until.catch(() => undefined)
    const committing = { giveUp: () => giveUp(new TookTooLong('the commit took too long')) }
    let written: readonly Waiting<Write, Answer>[] = []
    let lockTimeouts = 0
    const attempt = async (sql: Transaction) => {
      for (const waiting of batch) waiting.found = undefined
      const taken = batch.filter(({ isOver }) => !isOver)
      try {
        await this.#find(sql, taken, lane === this.#shared ? lockTimeouts : 0)
        written = taken.filter(({ found }) => found !== setAside)
      } catch (error) {
        if (codeOf(error) === lockNotAvailable) lockTimeouts++
        throw error
      }
    }
    const beforeCommit = () => {
      // It was told that nothing is written.
      if (written.some(({ isOver }) => isOver)) throw new Conflict()
      for (const waiting of written) waiting.committing = committing
    }
    const afterCommit = () => {
      for (const waiting of written) waiting.committing = undefined
    }
    const latest = Math.max(...batch.map(({ end }) => end))
    await this.#database.transaction(attempt, latest - performance.now(), {
      ...(lane === this.#shared ? { lane: this } : { sharer: aside }),
      ...(this.#work.ownerOf && { lockPatience }),
      beforeCommit,
      afterCommit,
      until,
    })
    if (written.length > 0) {
      this.#sizes.record(written.length)
      this.#work.committed?.()
    }
  }

  /** @param lockTimeouts how often a lock was not had in time: then it is not waited for, and at last by nobody */
  async #find(sql: Transaction, taken: readonly Waiting<Write, Answer>[], lockTimeouts: number): Promise<void> {
    if (lockTimeouts > 1) for (const waiting of taken) waiting.found = setAside
    if (lockTimeouts > 1 || taken.length === 0) return
    const writes = taken.map(({ write }) => write)
    const found = await this.#work.commit(sql, writes, lockTimeouts === 0)
    for (const [index, waiting] of taken.entries()) waiting.found = found[index]
  }

  #answer(batch: readonly Waiting<Write, Answer>[]): void {
    const left: Waiting<Write, Answer>[] = []
    for (const waiting of batch) {
      const { found } = waiting
      if (found === setAside) left.push(waiting)
      else {
        this.#unanswered.delete(waiting)
        if (found === undefined) waiting.reject(new Error('a write of the batch has no answer'))
        else if (found instanceof ApiError) waiting.reject(found)
        else waiting.resolve(found)
      }
    }
    if (left.length > 0) this.#setAside(left)
  }

  /** Gives the owners of writes lanes of their own. */
  #setAside(writes: readonly Waiting<Write, Answer>[]): void {
    for (const { write } of writes) {
      const owner = this.#work.ownerOf?.(write)
      if (this.#lanes.has(owner)) continue
      this.#forgetLanes()
      this.#lanes.set(owner, { owner, waiting: [], isRunning: false, isFree: false })
    }
    // What waits already goes along: writes of one owner are done in their order.
    const waiting = [...writes, ...this.#shared.waiting]
    this.#shared.waiting = []
    for (const each of waiting) this.#enqueue(this.#laneOf(each.write), each)
  }

  #forgetLanes(): void {
    for (const [owner, { isRunning }] of this.#lanes) {
      if (this.#lanes.size < mostLanes) return
      if (!isRunning) this.#lanes.delete(owner)
    }
  }
}
