import type { Clock } from '../../clock.ts'
import { ApiError } from '../../errors.ts'
import type { BreakerSettings } from '../configuration/settings.ts'

/** Failures in a row that open the breaker, and the milliseconds for which it stays open. */
const defaults = { failures: 5, pause: 10_000 } as const

/**
 * `closed`: requests pass. `open`: requests are refused, and the first request after the pause is the probe. `probing`: the probe
 * is in flight, and other requests are refused.
 */
export type BreakerState = 'closed' | 'open' | 'probing'

/** A probe; the promise resolves at its end. */
export type Probe = PromiseWithResolvers<void>

/**
 * Circuit breaker of one model. After some failures in a row it refuses requests at once, so that callers do not wait and the
 * model gets no more load. After a pause it lets one request through as a probe.
 */
export class Breaker {
  readonly #clock: Clock
  readonly #threshold: number
  readonly #pauseMs: number
  #failures = 0
  #openedAt = 0
  /** The probe that is in flight; undefined without a probe. */
  #probe: Probe | undefined

  constructor(clock: Clock, { failures = defaults.failures, pause = defaults.pause }: BreakerSettings = {}) {
    this.#clock = clock
    this.#threshold = failures === 0 ? Number.POSITIVE_INFINITY : failures
    this.#pauseMs = pause
  }

  get state(): BreakerState {
    if (this.#failures < this.#threshold) return 'closed'
    return this.#probe ? 'probing' : 'open'
  }

  /** Whether `admit` would throw now. */
  get isRefusing(): boolean {
    return this.#failures >= this.#threshold && (this.#probe !== undefined || this.#remainingMs > 0)
  }

  /** Resolves at the end of the probe that is in flight; without a probe, resolves immediately. */
  async probeEnded(): Promise<void> {
    await this.#probe?.promise
  }

  /**
   * Lets a request through, or throws. After the request, the caller must call `recordSuccess`, `recordFailure` or
   * `endWithoutResult`. For a stream, the caller must call `recordFirstEvent` when the first event has come; after that, an end
   * without a result need not be reported.
   * @returns the probe if the request is the probe; the caller passes it on when the request ends or its answer begins
   * @throws ApiError 503 `model_unavailable` with `Retry-After`
   */
  admit(): Probe | undefined {
    if (this.isRefusing) {
      const seconds = Math.max(1, Math.ceil(this.#remainingMs / 1000))
      throw new ApiError(
        503,
        'model_unavailable',
        'The model keeps failing, so requests to it are refused for a while. Try again later.',
        {
          headers: { 'retry-after': String(seconds) },
        },
      )
    }
    if (this.#failures >= this.#threshold) this.#probe = Promise.withResolvers()
    return this.#probe
  }

  /** Ends the probe when its answer begins, so that other requests pass. The next failure opens the breaker again. */
  recordFirstEvent(probe: Probe | undefined): void {
    if (!this.#isInFlight(probe)) return
    this.#failures = this.#threshold - 1
    this.#endProbe()
  }

  /** Closes the breaker, also after a request that is not the probe. */
  recordSuccess(): void {
    this.#failures = 0
    this.#endProbe()
  }

  recordFailure(probe?: Probe): void {
    this.#failures++
    this.#openedAt = this.#clock.now()
    this.endWithoutResult(probe)
  }

  /**
   * Ends a request whose failure does not show whether the model works: the client left, the request was at fault, a rate limit
   * refused it, or this service was overloaded.
   */
  endWithoutResult(probe: Probe | undefined): void {
    if (this.#isInFlight(probe)) this.#endProbe()
  }

  /** Whether a request is the probe; false for a request from before the breaker opened, and for a probe before the current one. */
  #isInFlight(probe: Probe | undefined): boolean {
    return probe !== undefined && probe === this.#probe
  }

  /** Milliseconds until the next probe may pass. */
  get #remainingMs(): number {
    return this.#openedAt + this.#pauseMs - this.#clock.now()
  }

  #endProbe(): void {
    this.#probe?.resolve()
    this.#probe = undefined
  }
}
