import { ApiError, overloaded } from './errors.ts'
import { SumOfTurn } from './turn.ts'

/**
 * A computation in steps. Each `yield` gives the cost of the step that ends there, in units of about 10 ns: one unit is one
 * parsed character, or a hundred copied characters. Between two steps other requests may run. A step must not take more than a
 * few milliseconds. A `finally` block must not yield.
 */
export type Steps<T> = Generator<number, T, void>

/** The synchronous work of one request. All work whose time grows with the size of a request must use it. */
export interface Work {
  /**
   * Runs the steps in slices of a few milliseconds. Between two slices other requests run.
   * @param param the field of the request that causes the work, for the error
   * @returns the result itself if the first slice is enough, so that a small request never waits; otherwise a promise
   * @throws ApiError 400 `too_complex` if the work exceeds the request's budget, 503 `overloaded` after 20 s, and the reason of
   * the owner's signal when the signal aborts
   */
  run<T>(param: string, steps: Steps<T>): T | Promise<T>
}

/** The account id for work without a key. No account has this id. The scheduler treats such work as the work of one account. */
export const noAccount = 0

/** The owner of some work. */
export interface Owner {
  /** Accounts get equal shares of the time. */
  readonly account: number
  /** Aborts when the result is not needed any more. */
  readonly signal?: AbortSignal
}

/** The most milliseconds of one slice. A usual request needs less. */
const sliceMs = 5
/** The most milliseconds of all slices in one turn of the event loop. */
const turnMs = 15
/** An account is behind if this many of its slices wait, and the oldest slice has waited for more than this many milliseconds. */
const minBacklog = 16
const maxBacklogMs = 20
/** Units of work between two readings of the clock, about 20 µs. */
const unitsPerClockRead = 2000
/** The most units of work of one request, about 4 s. This is twice the work of a chat of 8 MiB. */
const maxUnits = 400_000_000
/** The most milliseconds from the first wait of a computation to the beginning of its last slice. */
const maxMs = 20_000

/**
 * The milliseconds of a slice that is reported. A slice exceeds its own bound by its last step. Garbage collections and waits for
 * a free core are included, so on a busy machine a harmless step may take some 100 ms.
 */
const longSliceMs = 250

/** Is told of a slice with a step that was too long, because all other requests had to wait for it. */
export type ReportLongSlice = (slice: { readonly param: string; readonly account: number; readonly ms: number }) => void

/** Steps that are running, with their owner and the budget of their request. */
class RunningSteps<T> {
  readonly owner: Owner
  /** The field of the request that causes the work. */
  readonly param: string
  readonly #budget: { left: number }
  readonly #steps: Steps<T>

  constructor(owner: Owner, param: string, budget: { left: number }, steps: Steps<T>) {
    this.owner = owner
    this.param = param
    this.#budget = budget
    this.#steps = steps
  }

  /**
   * Runs steps until the time `end`. Steps that cannot go on are closed, so that their `finally` blocks free their memory now.
   * @returns the result if all steps are done
   * @throws ApiError 503 if the slice begins after the time `deadline`
   */
  slice(now: () => number, end: number, deadline: number): { readonly result: T } | undefined {
    try {
      if (now() > deadline) throw overloaded()
      this.owner.signal?.throwIfAborted()
      return this.#advance(now, end)
    } catch (error) {
      this.#close()
      throw error
    }
  }

  #advance(now: () => number, end: number): { readonly result: T } | undefined {
    let units = 0
    for (;;) {
      const { done, value } = this.#steps.next()
      if (done) return { result: value }
      units += value
      if (units < unitsPerClockRead) continue
      this.#budget.left -= units
      if (this.#budget.left < 0) throw tooComplex(this.param)
      units = 0
      if (now() >= end) return undefined
    }
  }

  /**
   * Closes the steps. It has no effect on steps that have ended. If a `finally` block yields, `return` is called again, so the rest
   * of that block does not run. A call of `next` could run the rest, but all generators that delegate to it would go on too.
   */
  #close(): void {
    // This type allows `return` without a result.
    const steps: Iterator<number, unknown, void> = this.#steps
    while (steps.return?.().done === false) {}
  }
}

interface WaitingSlice {
  /** The time when the slice began to wait, by the scheduler's clock. */
  readonly since: number
  readonly run: () => void
}

/**
 * Shares the event loop among requests. The slices of all requests wait in one queue, which serves the accounts in turn. In one
 * turn of the event loop, all slices together take at most 15 ms (docs/decisions/0024-no-request-stops-the-others.md).
 */
export class Scheduler {
  /** The waiting slices of each account. The first account in the map is served next. */
  readonly #queue = new Map<number, WaitingSlice[]>()
  readonly #now: () => number
  readonly #onLongSlice: ReportLongSlice | undefined
  /** The milliseconds that all slices have taken in this turn. */
  readonly #usedMs = new SumOfTurn()

  /** @param now a monotonic clock in milliseconds */
  constructor(now: () => number = performance.now.bind(performance), onLongSlice?: ReportLongSlice) {
    this.#now = now
    this.#onLongSlice = onLongSlice
  }

  /** The number of computations that wait for their next slice. */
  get waiting(): number {
    return [...this.#queue.values()].reduce((sum, slices) => sum + slices.length, 0)
  }

  /** Opens the work of one request. Each request has its own budget. */
  workOf(owner: Owner): Work {
    const budget = { left: maxUnits }
    return { run: (param, steps) => this.#run(new RunningSteps(owner, param, budget, steps)) }
  }

  /**
   * Whether the account sends work faster than it is done. A short burst does not count, because its slices have not waited long.
   */
  isBehind(account: number): boolean {
    const slices = this.#queue.get(account) ?? []
    const [oldest] = slices
    return slices.length >= minBacklog && oldest !== undefined && this.#now() - oldest.since > maxBacklogMs
  }

  #run<T>(run: RunningSteps<T>): T | Promise<T> {
    if (this.#queue.size === 0 && this.#leftMs() > 0) {
      const first = this.#slice(run, Number.POSITIVE_INFINITY)
      if (first) return first.result
    }
    const deadline = this.#now() + maxMs
    return new Promise((resolve, reject) => {
      const next = () => {
        try {
          const end = this.#slice(run, deadline)
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
  #slice<T>(run: RunningSteps<T>, deadline: number): { readonly result: T } | undefined {
    const start = this.#now()
    try {
      return run.slice(this.#now, start + Math.min(sliceMs, this.#leftMs()), deadline)
    } finally {
      const ms = this.#now() - start
      this.#usedMs.add(ms)
      if (ms > longSliceMs) this.#onLongSlice?.({ param: run.param, account: run.owner.account, ms })
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
      // The account moves to the end of the queue.
      this.#queue.delete(account)
      this.#queue.set(account, slices)
      next?.run()
      if (slices.length === 0) this.#queue.delete(account)
    }
    if (this.#queue.size > 0) setImmediate(this.#takeTurn)
  }
}

/** The units to find a row and read it. The texts of the row count one unit more for each character. */
const unitsPerRow = 500

/**
 * Reads some rows of a database, and makes an item of each row. The query itself is one step, so it must be short: a list reads
 * few rows at a time.
 * @param queryUnits the cost of the query, without the cost of the rows
 */
export function* readRows<Row extends object, Item>(
  query: () => readonly Row[],
  toItem: (row: Row) => Item,
  queryUnits = unitsPerClockRead,
): Steps<readonly Item[]> {
  yield queryUnits
  const items: Item[] = []
  for (const row of query()) {
    items.push(toItem(row))
    yield unitsPerRow + lengthOfTexts(row)
  }
  return items
}

function lengthOfTexts(row: object): number {
  let length = 0
  for (const value of Object.values(row)) if (typeof value === 'string') length += value.length
  return length
}

/**
 * Work without slices, for commands, because no requests wait in a command. All steps together have the budget of one request.
 */
export function workAtOnce(): { run<T>(param: string, steps: Steps<T>): T } {
  const budget = { left: maxUnits }
  return {
    run(param, steps) {
      const end = new RunningSteps({ account: noAccount }, param, budget, steps).slice(() => 0, 1, 1)
      if (!end) throw new Error('a slice without an end came to one')
      return end.result
    },
  }
}

function tooComplex(param: string): ApiError {
  const message = `"${param}" causes more work than one request may cause. Send a smaller or simpler one.`
  return new ApiError(400, 'too_complex', message, { param })
}
