import type { Clock } from '../../clock.ts'
import { ApiError } from '../../errors.ts'
import type { BreakerSettings } from '../configuration/settings.ts'

/** How many failures in a row open the breaker, and for how many milliseconds nothing is asked then. */
const defaults = { failures: 5, pause: 10_000 } as const

/** What the breaker is doing: letting requests through, refusing them, or waiting for what one probe says. */
export type BreakerState = 'closed' | 'open' | 'probing'

/**
 * Stops asking a model that keeps failing, so that callers and the model are spared the wait,
 * and asks it again with one request after a pause.
 */
export class Breaker {
  readonly #clock: Clock
  readonly #threshold: number
  readonly #pauseMs: number
  #failures = 0
  #openedAt = 0
  /** Of the probe that is under way; resolves when it is not any more. */
  #probe: PromiseWithResolvers<void> | undefined

  constructor(clock: Clock, { failures = defaults.failures, pause = defaults.pause }: BreakerSettings = {}) {
    this.#clock = clock
    this.#threshold = failures === 0 ? Number.POSITIVE_INFINITY : failures
    this.#pauseMs = pause
  }

  get state(): BreakerState {
    if (this.#failures < this.#threshold) return 'closed'
    return this.#probe ? 'probing' : 'open'
  }

  /** Whether a request would be refused now. */
  get isRefusing(): boolean {
    return this.#failures >= this.#threshold && (this.#probe !== undefined || this.#remainingMs > 0)
  }

  /** Resolves when no probe is under way. */
  async probeEnded(): Promise<void> {
    await this.#probe?.promise
  }

  /**
   * Asks for a request to be let through; whoever is, tells `succeeded`, `failed` or `gaveUp` afterwards,
   * and of a stream `answered` before that.
   * @throws ApiError 503 `model_unavailable` with `Retry-After`
   */
  admit(): void {
    if (this.isRefusing) {
      const seconds = Math.max(1, Math.ceil(this.#remainingMs / 1000))
      throw new ApiError(
        503,
        'model_unavailable',
        'The model keeps failing and is left alone for a moment. Try later.',
        {
          headers: { 'retry-after': String(seconds) },
        },
      )
    }
    if (this.#failures >= this.#threshold) this.#probe = Promise.withResolvers()
  }

  /** An answer has begun: others may ask again, but a model that breaks off now is left alone at once. */
  recordFirstEvent(): void {
    if (!this.#probe) return
    this.#failures = this.#threshold - 1
    this.#endProbe()
  }

  recordSuccess(): void {
    this.#failures = 0
    this.#endProbe()
  }

  recordFailure(): void {
    this.#failures++
    this.#openedAt = this.#clock.now()
    this.#endProbe()
  }

  /** The request ended without telling anything about the model: the client left, or it was the caller's fault. */
  endWithoutResult(): void {
    this.#endProbe()
  }

  /** Milliseconds until it may be asked again. */
  get #remainingMs(): number {
    return this.#openedAt + this.#pauseMs - this.#clock.now()
  }

  #endProbe(): void {
    this.#probe?.resolve()
    this.#probe = undefined
  }
}
