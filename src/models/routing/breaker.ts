import type { Clock } from '../../clock.ts'
import { ApiError } from '../../errors.ts'
import type { BreakerSettings } from '../configuration/settings.ts'

/** The number of failures in a row that opens the breaker, and the milliseconds for which the breaker stays open. */
const defaults = { failures: 5, pause: 10_000 } as const

/**
 * `closed`: requests pass. `open`: requests are refused, and the first request after the pause is the probe. `probing`: the probe
 * is in flight, and other requests are refused.
 */
export type BreakerState = 'closed' | 'open' | 'probing'

/** A probe. The promise resolves when the probe ends. */
export type Probe = PromiseWithResolvers<void>

/**
 * Circuit breaker of one model. After several failures in a row, the breaker refuses requests immediately, so that callers do not
 * wait and the model gets no more load. After a pause, the breaker lets one request through as a probe.
 */
export class Breaker {
  readonly #clock: Clock
  readonly #threshold: number
  readonly #pauseMs: number
  #failures = 0
  #openedAt = 0
  /** The probe in flight. Undefined if there is none. */
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

  /** Resolves when the probe in flight ends. Without a probe, resolves immediately. */
  async probeEnded(): Promise<void> {
    await this.#probe?.promise
  }

  /**
   * Lets a request through, or throws. After the request, the caller must call `recordSuccess`, `recordFailure` or
   * `endWithoutResult`. For a stream, the caller must call `recordFirstEvent` when the first event has come. Then
   * `endWithoutResult` is not necessary any more.
   * @returns the probe if the request is the probe. The caller passes the probe to the methods below
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

  /** Ends the probe when its answer begins, so that other requests pass. After that, one failure opens the breaker again. */
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

  /**
   * Whether a request is the current probe. False for an earlier probe, and for a request that began before the breaker opened.
   */
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
