import { ApiError } from '../../errors.ts'

/** Seconds that a refused caller is told to wait, at the least and at the most. */
const minRetrySeconds = 1
const maxRetrySeconds = 60

/** One at a time, in the order of coming; only so many may wait. */
export class Queue {
  readonly #maxWaiting: number
  /** Those who wait, first come first. */
  readonly #waiting = new Set<() => void>()
  #isBusy = false
  #lastSeconds = 0

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting
  }

  /**
   * Waits for one's turn, and gives the function that ends it. An aborted signal leaves the queue at once.
   * @throws ApiError 503 `model_busy` when too many wait already; the signal's reason when it aborts
   */
  async enter(signal: AbortSignal): Promise<() => void> {
    if (this.#isBusy && this.#waiting.size >= this.#maxWaiting) throw this.#refusal()
    return this.#enter(signal)
  }

  /** Waits, however many do, until nothing goes on, and lets nobody in any more. */
  async close(): Promise<void> {
    await this.#enter(new AbortController().signal)
  }

  async #enter(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#isBusy) await this.#turn(signal)
    this.#isBusy = true
    const start = performance.now()
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#lastSeconds = (performance.now() - start) / 1000
      this.#next()
    }
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const go = () => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        this.#waiting.delete(go)
        reject(signal.reason)
      }
      this.#waiting.add(go)
      signal.addEventListener('abort', leave, { once: true })
    })
  }

  /** Hands the turn on; it stays taken in between, so that nobody slips in before the one who has waited. */
  #next(): void {
    const [first] = this.#waiting
    if (first === undefined) {
      this.#isBusy = false
      return
    }
    this.#waiting.delete(first)
    first()
  }

  #refusal(): ApiError {
    const seconds = Math.min(Math.max(Math.ceil(this.#lastSeconds), minRetrySeconds), maxRetrySeconds)
    return new ApiError(503, 'model_busy', 'Too many requests wait for this model already. Try again later.', {
      headers: { 'retry-after': String(seconds) },
    })
  }
}
