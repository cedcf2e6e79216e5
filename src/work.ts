import { ApiError, overloaded } from './errors.ts'
import { SumOfTurn } from './turn.ts'

/**
 * A computation in steps. Each yield gives the cost of the step that ends there, in units of some 10 ns. One unit is one
 * character that is parsed, or a hundred that are only copied. Between two steps other requests may run, so a step takes a few
 * milliseconds at most.
 */
export type Steps<T> = Generator<number, T, void>

/** The synchronous work of one request. All work that grows with the size of a request goes through it. */
export interface Work {
  /**
   * Runs the steps in slices of a few milliseconds. Between two slices other requests run.
   * @param param the field of the request that causes the work, for the error
   * @returns the result itself if the first slice is enough, so that a small request never waits; otherwise a promise
   * @throws ApiError 400 `too_complex` beyond the request's budget, 503 `overloaded` after 20 s; and the reason of the
   *   owner's signal when it aborts
   */
  run<T>(param: string, steps: Steps<T>): T | Promise<T>
}

/** The account id for work without a key. It has its own share of the time, and no account has this id. */
export const noAccount = 0

/** The owner of some work. */
export interface Owner {
  /** Accounts get equal shares of the time. */
  readonly account: number
  /** Aborts when the result is not needed any more. */
  readonly signal?: AbortSignal
}

/** The most milliseconds of one slice: more than a usual request needs. */
const sliceMs = 5
/** The most milliseconds of all slices in one turn of the event loop. */
const turnMs = 15
/** An account's work comes faster than it is done if so many of its slices wait, and the oldest for so many milliseconds. */
const minBacklog = 16
const maxBacklogMs = 20
/** Units of work between two readings of the clock: some 20 µs. */
const unitsPerClockRead = 2000
/** The most units of work of one request: some 4 s, twice the work of a chat of 8 MiB. */
const maxUnits = 400_000_000
/** The most milliseconds from a computation's first wait for a slice to the beginning of its last slice. */
const maxMs = 20_000

/** Steps that are running, with their owner and the budget of their request. */
class RunningSteps<T> {
  readonly owner: Owner
  readonly #param: string
  readonly #budget: { left: number }
  readonly #steps: Steps<T>

  constructor(owner: Owner, param: string, budget: { left: number }, steps: Steps<T>) {
    this.owner = owner
    this.#param = param
    this.#budget = budget
    this.#steps = steps
  }

  /** Runs steps until the time `end`. @returns the result if all steps are done */
  slice(now: () => number, end: number): { readonly result: T } | undefined {
    this.owner.signal?.throwIfAborted()
    let units = 0
    for (;;) {
      const { done, value } = this.#steps.next()
      if (done) return { result: value }
      units += value
      if (units < unitsPerClockRead) continue
      this.#budget.left -= units
      if (this.#budget.left < 0) throw tooComplex(this.#param)
      units = 0
      if (now() >= end) return undefined
    }
  }
}

/** A slice in the queue. */
interface WaitingSlice {
  /** Since when the slice waits, by the scheduler's clock. */
  readonly since: number
  readonly run: () => void
}

/**
 * Shares the event loop among requests. The slices of all requests wait in one queue, fair by account, and take 15 ms
 * together in a turn of the event loop (docs/decisions/0024-no-request-stops-the-others.md).
 */
export class Scheduler {
  /** The next slices of waiting steps, by account. The first account of the map is next. */
  readonly #queue = new Map<number, WaitingSlice[]>()
  readonly #now: () => number
  /** The milliseconds of all slices. */
  readonly #usedMs = new SumOfTurn()

  /** @param now a monotonic clock in milliseconds */
  constructor(now: () => number = performance.now.bind(performance)) {
    this.#now = now
  }

  /** The number of computations that wait for their next slice. */
  get waiting(): number {
    return [...this.#queue.values()].reduce((sum, slices) => sum + slices.length, 0)
  }

  /** The work of one request, with a budget of its own. */
  workOf(owner: Owner): Work {
    const budget = { left: maxUnits }
    return { run: (param, steps) => this.#run(new RunningSteps(owner, param, budget, steps)) }
  }

  /** Whether the account's work comes faster than it is done. A burst is no reason: its slices have only begun to wait. */
  isBehind(account: number): boolean {
    const slices = this.#queue.get(account) ?? []
    const [oldest] = slices
    return slices.length >= minBacklog && oldest !== undefined && this.#now() - oldest.since > maxBacklogMs
  }

  #run<T>(run: RunningSteps<T>): T | Promise<T> {
    if (this.#queue.size === 0 && this.#leftMs() > 0) {
      const first = this.#slice(run)
      if (first) return first.result
    }
    const deadline = this.#now() + maxMs
    return new Promise((resolve, reject) => {
      const next = () => {
        try {
          if (this.#now() > deadline) throw overloaded()
          const end = this.#slice(run)
          if (end) resolve(end.result)
          else this.#wait(run.owner.account, next)
        } catch (error) {
          reject(error)
        }
      }
      this.#wait(run.owner.account, next)
    })
  }

  /** The milliseconds that slices may still take in this turn. */
  #leftMs(): number {
    return turnMs - this.#usedMs.value
  }

  /** Runs one slice, and counts its time. */
  #slice<T>(run: RunningSteps<T>): { readonly result: T } | undefined {
    const start = this.#now()
    try {
      return run.slice(this.#now, start + Math.min(sliceMs, this.#leftMs()))
    } finally {
      this.#usedMs.add(this.#now() - start)
    }
  }

  #wait(account: number, run: () => void): void {
    if (this.#queue.size === 0) setImmediate(this.#takeTurn)
    const slice = { since: this.#now(), run }
    const slices = this.#queue.get(account)
    if (slices) slices.push(slice)
    else this.#queue.set(account, [slice])
  }

  /** Runs slices of the accounts round-robin, until the time of the turn is used. */
  readonly #takeTurn = (): void => {
    while (this.#leftMs() > 0) {
      const [front] = this.#queue
      if (!front) return
      const [account, slices] = front
      const next = slices.shift()
      // The account goes to the end of the queue, and keeps its place there until its slice has been taken.
      this.#queue.delete(account)
      this.#queue.set(account, slices)
      next?.run()
      if (slices.length === 0) this.#queue.delete(account)
    }
    if (this.#queue.size > 0) setImmediate(this.#takeTurn)
  }
}

/** Work without slices, for commands: no requests wait there. All steps together have the budget of one request. */
export function workAtOnce(): { run<T>(param: string, steps: Steps<T>): T } {
  const budget = { left: maxUnits }
  return {
    run(param, steps) {
      const end = new RunningSteps({ account: noAccount }, param, budget, steps).slice(() => 0, 1)
      if (!end) throw new Error('a slice without an end came to one')
      return end.result
    },
  }
}

function tooComplex(param: string): ApiError {
  const message = `What "${param}" asks for takes more work than one request may cause. Send a smaller or simpler one.`
  return new ApiError(400, 'too_complex', message, { param })
}
