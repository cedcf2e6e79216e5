import { ApiError } from '../../errors.ts'

/** Bounds of `Retry-After`. */
const minRetrySeconds = 1
const maxRetrySeconds = 60

/** Admits one request at a time, first come first served. The number of waiting requests is bounded. */
export class Queue {
  readonly #maxWaiting: number
  /** Resolve functions of the waiting requests, in the order of arrival. */
  readonly #waiting = new Set<() => void>()
  #isBusy = false
  #lastSeconds = 0

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting
  }

  /**
   * Waits for a turn, and returns the function that ends the turn. When the signal aborts, the request leaves the queue
   * immediately.
   * @throws ApiError 503 `model_busy` if the queue is full; the signal's reason when it aborts
   */
  async enter(signal: AbortSignal): Promise<() => void> {
    if (this.#isBusy && this.#waiting.size >= this.#maxWaiting) throw this.#refusal()
    return this.#enter(signal)
  }

  /**
   * Closes the queue: waits for a turn behind all waiting requests, even if the queue is full. This turn never ends, so no later
   * request can run.
   */
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

  /** Gives the turn to the next waiting request. `#isBusy` stays true, so that no new request overtakes this request. */
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
