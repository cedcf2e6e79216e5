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
  /** Of the probe that is under way; resolves when it is not any more. */
  #probe: PromiseWithResolvers<void> | undefined

  constructor(clock: Clock, { failures = standard.failures, pause = standard.pause }: Breaking = {}) {
    this.#clock = clock
    this.#threshold = failures === 0 ? Number.POSITIVE_INFINITY : failures
    this.#pause = pause
  }

  get state(): BreakerState {
    if (this.#failures < this.#threshold) return 'closed'
    return this.#probe ? 'probing' : 'open'
  }

  /** Whether a request would be refused now. */
  get isShut(): boolean {
    return this.#failures >= this.#threshold && (this.#probe !== undefined || this.#wait > 0)
  }

  /** Resolves when no probe is under way. */
  async probed(): Promise<void> {
    await this.#probe?.promise
  }

  /**
   * Asks for a request to be let through; whoever is, tells `succeeded`, `failed` or `gaveUp` afterwards,
   * and of a stream `answered` before that.
   * @throws ApiError 503 `model_unavailable` with `Retry-After`
   */
  pass(): void {
    if (this.isShut) {
      const seconds = Math.max(1, Math.ceil(this.#wait / 1000))
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
  answered(): void {
    if (!this.#probe) return
    this.#failures = this.#threshold - 1
    this.#endProbe()
  }

  succeeded(): void {
    this.#failures = 0
    this.#endProbe()
  }

  failed(): void {
    this.#failures++
    this.#openedAt = this.#clock.now()
    this.#endProbe()
  }

  /** The request ended without telling anything about the model: the client left, or it was the caller's fault. */
  gaveUp(): void {
    this.#endProbe()
  }

  /** Milliseconds until it may be asked again. */
  get #wait(): number {
    return this.#openedAt + this.#pause - this.#clock.now()
  }

  #endProbe(): void {
    this.#probe?.resolve()
    this.#probe = undefined
  }
}
