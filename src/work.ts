import { ApiError, overloaded } from './errors.ts'

/**
 * A computation in steps. It yields what the step that ends there has cost, in units of some 10 ns: a character that is looked
 * at closely, or a hundred that are only copied. Between two steps the request may have to wait for others; so a step takes
 * a few milliseconds at most.
 */
export type Steps<T> = Generator<number, T, void>

/** The work of one request: everything synchronous that grows with what a caller sent goes through it. */
export interface Work {
  /**
   * Takes steps, in slices where others wait.
   * @param param the field of the request that decides how much there is to do
   * @returns the result itself where the first slice was enough, so that a small request waits for nothing
   * @throws ApiError 400 `too_complex` beyond the request's budget, 503 `overloaded` where others leave no time for it;
   *   and the signal's reason when nobody wants the result any more
   */
  run<T>(param: string, steps: Steps<T>): T | Promise<T>
}

/** Stands for the account of work that no key asks for: it has a share of its own, and no account has this id. */
export const noAccount = 0

/** Who shares the time, and how long the result is wanted. */
export interface Owner {
  /** Accounts get equal shares of the time. */
  readonly account: number
  /** Aborts when nobody wants the result any more. */
  readonly signal?: AbortSignal
}

/** Milliseconds of one slice: longer than any common request needs. */
const sliceMs = 5
/** Milliseconds of all slices in one turn of the event loop. */
const turnMs = 15
/** Units that are taken between two looks at the clock: some 20 µs. */
const unitsPerLook = 2000
/** Units of one request: some 4 s, twice what a chat of 8 MiB takes. */
const mostUnits = 400_000_000
/** Milliseconds that steps may take with all their waiting. */
const mostMs = 20_000

/** The steps of one run, and how far they are. */
class Run<T> {
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

  /** Takes steps until the time is over. @returns the result where they are through */
  slice(now: () => number, end: number): { readonly result: T } | undefined {
    this.owner.signal?.throwIfAborted()
    let units = 0
    for (;;) {
      const { done, value } = this.#steps.next()
      if (done) return { result: value }
      units += value
      if (units < unitsPerLook) continue
      this.#budget.left -= units
      if (this.#budget.left < 0) throw tooComplex(this.#param)
      units = 0
      if (now() >= end) return undefined
    }
  }
}

/** Writes a value of about so many characters as JSON, in one step: it begins when there is time for it. */
export function* jsonOf(value: unknown, length: number): Steps<string> {
  yield length
  return JSON.stringify(value)
}

/**
 * Shares the event loop among requests: the slices of all of them stand in one queue, fair by account, and take 15 ms
 * together in a turn of the loop (docs/decisions/0024-no-request-stops-the-others.md).
 */
export class Scheduler {
  /** What takes the next slice of each waiting run, by account; the account at the front is next. */
  readonly #queue = new Map<number, (() => void)[]>()
  readonly #now: () => number
  /** Milliseconds that slices have taken in this turn of the event loop. */
  #usedMs = 0
  #endsTurn = false

  /** @param now tells the time in milliseconds */
  constructor(now: () => number = performance.now.bind(performance)) {
    this.#now = now
  }

  /** How many runs wait for their next slice. */
  get waiting(): number {
    return [...this.#queue.values()].reduce((sum, slices) => sum + slices.length, 0)
  }

  /** The work of one request, with a budget of its own. */
  workOf(owner: Owner): Work {
    const budget = { left: mostUnits }
    return { run: (param, steps) => this.#run(new Run(owner, param, budget, steps)) }
  }

  #run<T>(run: Run<T>): T | Promise<T> {
    if (this.#queue.size === 0 && this.#usedMs < turnMs) {
      const first = this.#slice(run)
      if (first) return first.result
    }
    const deadline = this.#now() + mostMs
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

  /** Takes one slice of a run, and counts its time. */
  #slice<T>(run: Run<T>): { readonly result: T } | undefined {
    const start = this.#now()
    try {
      return run.slice(this.#now, start + Math.min(sliceMs, turnMs - this.#usedMs))
    } finally {
      this.#usedMs += this.#now() - start
      this.#endTurnLater()
    }
  }

  #wait(account: number, next: () => void): void {
    const slices = this.#queue.get(account)
    if (slices) slices.push(next)
    else this.#queue.set(account, [next])
    this.#endTurnLater()
  }

  #endTurnLater(): void {
    if (this.#endsTurn) return
    this.#endsTurn = true
    // Node runs these when it has read what there is on all sockets, and reads again before the next ones.
    setImmediate(() => {
      this.#endsTurn = false
      this.#usedMs = 0
      this.#takeTurn()
    })
  }

  /** Lets the accounts have a slice each, one after the other, as long as the turn lasts. */
  #takeTurn(): void {
    while (this.#usedMs < turnMs) {
      const [front] = this.#queue
      if (!front) return
      const [account, slices] = front
      this.#queue.delete(account)
      const next = slices.shift()
      // Behind all others: its turn has come.
      if (slices.length > 0) this.#queue.set(account, slices)
      next?.()
    }
  }
}

/** The work of a command, which nobody waits beside: it has a request's budget, and no slices. */
export function workAtOnce(): { run<T>(param: string, steps: Steps<T>): T } {
  const budget = { left: mostUnits }
  return {
    run(param, steps) {
      const end = new Run({ account: noAccount }, param, budget, steps).slice(() => 0, 1)
      if (!end) throw new Error('a slice without an end came to one')
      return end.result
    },
  }
}

function tooComplex(param: string): ApiError {
  const message = `What "${param}" asks for takes more work than one request may cause. Send a smaller or simpler one.`
  return new ApiError(400, 'too_complex', message, { param })
}
