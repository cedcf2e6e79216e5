import { type Clock, type Timer, unrefClock } from '../clock.ts'
import { ApiError, overloaded } from '../errors.ts'
import { AccountQueue, RecentAccounts } from './accounts.ts'
import { unpackError } from './crossing-error.ts'
import type { Job } from './job.ts'
import { type JobEnd, JobThread } from './job-thread.ts'
import type { JobAnswer, JobCall } from './worker.ts'

const maxThreads = 2

/** A thread ends after this time without a job, so that an idle service has the memory of no thread. */
const idleMs = 30_000

/** The CPU time of a job, and of a job in the slow lane. A chat of 8 MiB takes about 80 ms. */
const maxCpuMs = 500
const maxSlowCpuMs = 10_000

/** All jobs of an account are in the slow lane for this time after one of its jobs was ended. */
const slowLaneMs = 30_000

/**
 * The most waiting jobs, of all accounts and of one. A waiting job holds only what its request holds anyway, and a small one takes
 * some milliseconds, so a full queue is the work of some seconds.
 */
const maxWaiting = 1000
const maxWaitingOfAccount = 500

/** The most milliseconds from the first wait of a job until it begins for the last time. */
const maxWaitMs = 15_000

/**
 * The memory of a thread: its heap, with garbage, and its buffers. JSON that is parsed and written again three times takes 110 MiB
 * for a chat of 8 MiB, 200 MiB for a card of 16 MiB, and 780 MiB for a card of 64 MiB, if most of its texts have characters outside
 * of Latin-1. The cache of the thread (thread-cache.ts) takes 32 MiB, or one large card. A service that
 * allows larger cards gives a larger bound.
 */
export const defaultBytesOfThread = 320 * 1024 ** 2

/** A job that the pool or the system has ended, or a thread that did not start. For the log. */
export interface JobFault {
  readonly reason: Exclude<JobEnd, JobAnswer>['kind']
  readonly job: string
  readonly account: number
  /** The field of the request that causes the work. */
  readonly param: string
  /** Only of a thread that died or did not start. */
  readonly error?: unknown
}

/** The settings of a pool. All are optional. */
export interface PoolOptions {
  readonly clock?: Clock
  /** Is told of each job without an answer. */
  readonly onFault?: (fault: JobFault) => void
  readonly maxBytes?: number
  readonly maxCpuMs?: number
  readonly maxSlowCpuMs?: number
  readonly maxWaiting?: number
  readonly maxWaitingOfAccount?: number
  /** Starts a thread. */
  readonly startThread?: (clock: Clock, maxBytes: number) => JobThread
}

/** The request that a job belongs to. */
export interface JobOptions {
  /** Accounts are served in turn. */
  readonly account: number
  /** The field of the request that causes the work, for errors. */
  readonly param: string
  /** Aborts when the result is not needed any more. */
  readonly signal?: AbortSignal
}

/** A job from the call of `run` until its result. */
interface Task<Output = unknown> {
  readonly call: JobCall
  readonly account: number
  readonly param: string
  /** When the job must have begun. */
  readonly deadline: number
  /** Ends the wait at the deadline. */
  timer?: Timer
  wasEnded: boolean
  /** Whether the caller has its result or its error. */
  isSettled: boolean
  resolve(output: Output): void
  reject(error: unknown): void
}

/**
 * Runs jobs in at most two worker threads. The jobs wait in one queue, which serves the accounts in turn. Jobs of accounts with an
 * ended job are in the slow lane: they run when no other job waits, and leave one thread free.
 */
export class WorkerPool {
  readonly #clock: Clock
  readonly #options: Required<Omit<PoolOptions, 'clock'>>
  readonly #queue = new AccountQueue<Task>()
  readonly #slow: RecentAccounts
  readonly #threads = new Set<JobThread>()
  readonly #idle: { readonly thread: JobThread; readonly timer: Timer }[] = []
  /** The threads that run a job, start or end. */
  #busy = 0
  #endedJobs = 0
  #isClosed = false

  constructor({ clock = unrefClock, ...options }: PoolOptions = {}) {
    this.#clock = clock
    this.#options = {
      onFault: () => {},
      maxBytes: defaultBytesOfThread,
      maxCpuMs,
      maxSlowCpuMs,
      maxWaiting,
      maxWaitingOfAccount,
      startThread: (...args) => new JobThread(...args),
      ...options,
    }
    this.#slow = new RecentAccounts(clock, slowLaneMs)
  }

  /** The number of threads. */
  get workers(): number {
    return this.#threads.size
  }

  /** The number of jobs that wait for a thread. */
  get waiting(): number {
    return this.#queue.size
  }

  /** The number of jobs that were ended without an answer, since the start. */
  get endedJobs(): number {
    return this.#endedJobs
  }

  /**
   * Runs a job in a thread.
   * @throws ApiError 400 `too_complex` if the job spends its budget of units; 503 `overloaded` if the queue is full or the wait too
   * long, if no thread starts, and, with `x-should-retry: false`, if the job takes too much time or memory; the signal's reason when
   * the signal aborts (a running job ends by itself, and its result is dropped); an error of the job itself
   */
  run<Input, Output>(job: Job<Input, Output>, input: Input, options: JobOptions): Promise<Output> {
    const { account, param, signal } = options
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      if (this.#isClosed || this.#isFull(account)) throw overloaded()
      const settle = <T>(give: (value: T) => void, value: T): void => {
        task.isSettled = true
        task.timer?.close()
        signal?.removeEventListener('abort', abort)
        give(value)
      }
      const task: Task<Output> = {
        call: { module: job.module, name: job.name, input: job.pack ? job.pack(input) : input },
        account,
        param,
        deadline: this.#clock.now() + maxWaitMs,
        wasEnded: false,
        isSettled: false,
        resolve: (output) => settle(resolve, output),
        reject: (error) => settle(reject, error),
      }
      const abort = (): void => {
        this.#queue.remove(account, task)
        task.reject(signal?.reason)
      }
      signal?.addEventListener('abort', abort, { once: true })
      this.#enqueue(task)
      this.#dispatch()
    })
  }

  /** Ends all threads. Waiting and running jobs get a 503. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (let task = this.#queue.take(); task; task = this.#queue.take()) task.reject(overloaded())
    for (const { timer } of this.#idle.splice(0)) timer.close()
    await Promise.all([...this.#threads].map((thread) => this.#end(thread)))
  }

  #isFull(account: number): boolean {
    return (
      this.#queue.size >= this.#options.maxWaiting || this.#queue.sizeOf(account) >= this.#options.maxWaitingOfAccount
    )
  }

  #enqueue(task: Task): void {
    this.#queue.push(task.account, task)
    const waitMs = Math.max(0, task.deadline - this.#clock.now())
    task.timer = this.#clock.setTimeout(() => {
      this.#queue.remove(task.account, task)
      task.reject(task.wasEnded ? tooLarge(task.param) : overloaded())
    }, waitMs)
  }

  /** Gives waiting jobs to free threads. */
  #dispatch(): void {
    for (;;) {
      const task = this.#nextTask(maxThreads - this.#busy)
      if (!task) return
      task.timer?.close()
      void this.#run(task)
    }
  }

  #nextTask(free: number): Task | undefined {
    if (free === 0) return undefined
    const task = this.#queue.take((account) => !this.#slow.has(account))
    return task ?? (free > 1 ? this.#queue.take() : undefined)
  }

  async #run(task: Task): Promise<void> {
    this.#busy++
    const isSlow = this.#slow.has(task.account)
    const { maxSlowCpuMs, maxCpuMs, maxBytes } = this.#options
    try {
      const thread = this.#takeThread()
      const end = await thread.run(task.call, { maxCpuMs: isSlow ? maxSlowCpuMs : maxCpuMs, maxBytes })
      this.#settle(task, end, isSlow)
      if (thread.isOver || (end.kind !== 'output' && end.kind !== 'error')) await this.#end(thread)
      else this.#rest(thread)
    } catch (error) {
      this.#settle(task, { kind: 'not_started', error }, isSlow)
    }
    this.#busy--
    this.#dispatch()
  }

  /** An idle thread, or a new one. The thread that was used last goes first, so that a second one can end after a burst. */
  #takeThread(): JobThread {
    for (let idle = this.#idle.pop(); idle; idle = this.#idle.pop()) {
      idle.timer.close()
      if (!idle.thread.isOver) return idle.thread
      this.#threads.delete(idle.thread)
    }
    const thread = this.#options.startThread(this.#clock, this.#options.maxBytes)
    this.#threads.add(thread)
    return thread
  }

  #rest(thread: JobThread): void {
    const timer = this.#clock.setTimeout(() => {
      const index = this.#idle.findIndex((idle) => idle.thread === thread)
      if (index < 0) return
      this.#idle.splice(index, 1)
      void this.#end(thread)
    }, idleMs)
    this.#idle.push({ thread, timer })
  }

  async #end(thread: JobThread): Promise<void> {
    await thread.close()
    this.#threads.delete(thread)
  }

  #settle(task: Task, end: JobEnd, wasSlow: boolean): void {
    if (end.kind === 'output') task.resolve(end.output)
    else if (end.kind === 'error') task.reject(unpackError(end.error, task.param))
    else if (this.#isClosed) task.reject(overloaded())
    else this.#settleFault(task, end, wasSlow)
  }

  #settleFault(task: Task, end: Exclude<JobEnd, JobAnswer>, wasSlow: boolean): void {
    const { account, param } = task
    const error = 'error' in end ? { error: end.error } : {}
    this.#options.onFault({ reason: end.kind, job: task.call.name, account, param, ...error })
    if (end.kind === 'not_started') {
      task.reject(overloaded('The service has no memory for this request at the moment. Try again in a second.'))
      return
    }
    this.#endedJobs++
    this.#slow.add(account)
    if (end.kind === 'time' && !wasSlow && !task.isSettled) {
      task.wasEnded = true
      this.#enqueue(task)
    } else task.reject(tooLarge(param))
  }
}

/** The 503 of a job that takes too much time or memory. A repetition would take as much. */
function tooLarge(param: string): ApiError {
  const message = `"${param}" takes more time or memory than the service has for one request. Send a smaller or simpler one.`
  return new ApiError(503, 'overloaded', message, { param, headers: { 'x-should-retry': 'false' } })
}
