import type { Clock } from '../../clock.ts'
import { ApiError } from '../../errors.ts'
import type { Breaking } from '../configuration/settings.ts'

/** How many failures in a row open the breaker, and for how many milliseconds nothing is asked then. */
const standard = { failures: 5, pause: 10_000 } as const

/** What the breaker is doing: letting requests through, refusing them, or waiting for what one probe says. */
export type BreakerState = 'closed' | 'open' | 'probing'

/**
 * Stops asking a model that keeps failing, so that callers and the model are spared the wait,
 * and asks it again with one request after a pause.
 */
export class Breaker {
  readonly #clock: Clock
  readonly #threshold: number
  readonly #pause: number
  #failures = 0
  #openedAt = 0
  #isProbing = false

  constructor(clock: Clock, { failures = standard.failures, pause = standard.pause }: Breaking = {}) {
    this.#clock = clock
    this.#threshold = failures === 0 ? Number.POSITIVE_INFINITY : failures
    this.#pause = pause
  }

  get state(): BreakerState {
    if (this.#failures < this.#threshold) return 'closed'
    return this.#isProbing ? 'probing' : 'open'
  }

  /**
   * Asks for a request to be let through; whoever is, tells `succeeded`, `failed` or `gaveUp` afterwards,
   * and of a stream `answered` before that.
   * @throws ApiError 503 `model_unavailable` with `Retry-After`
   */
  pass(): void {
    if (this.#failures < this.#threshold) return
    const wait = this.#openedAt + this.#pause - this.#clock.now()
    if (wait > 0 || this.#isProbing) {
      const seconds = Math.max(1, Math.ceil(wait / 1000))
      throw new ApiError(
        503,
        'model_unavailable',
        'The model keeps failing and is left alone for a moment. Try later.',
        {
          headers: { 'retry-after': String(seconds) },
        },
      )
    }
    this.#isProbing = true
  }

  /** An answer has begun: others may ask again, but a model that breaks off now is left alone at once. */
  answered(): void {
    if (!this.#isProbing) return
    this.#isProbing = false
    this.#failures = this.#threshold - 1
  }

  succeeded(): void {
    this.#failures = 0
    this.#isProbing = false
  }

  failed(): void {
    this.#failures++
    this.#isProbing = false
    this.#openedAt = this.#clock.now()
  }

  /** The request ended without telling anything about the model: the client left, or it was the caller's fault. */
  gaveUp(): void {
    this.#isProbing = false
  }
}
