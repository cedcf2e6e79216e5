import type { Alarm, Clock } from '../../clock.ts'
import { ApiError } from '../../errors.ts'
import type { Timeouts } from '../configuration/settings.ts'

/** How long a model may take when its settings do not say. Milliseconds. */
const defaultLimitsMs = { firstToken: 300_000, idle: 120_000, total: 1_800_000 } as const

/**
 * The time limits of one attempt at one model: its signal aborts, with a 504 that says which limit it was,
 * when one of them is over, and with the outer signal's reason when that one aborts.
 */
export class Deadlines {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal
  readonly #clock: Clock
  readonly #limitsMs: Required<Pick<Timeouts, 'firstToken' | 'idle' | 'total'>>
  readonly #onOuterAbort = () => this.#controller.abort(this.#outer.reason)
  #silence: Alarm | undefined
  #total: Alarm | undefined
  /** Whether an event has come, and nobody asks for another one: the silence is not the model's. */
  isWaitingForReader = false

  constructor(outer: AbortSignal, clock: Clock, timeouts: Timeouts = {}) {
    this.#outer = outer
    this.#clock = clock
    this.#limitsMs = { ...defaultLimitsMs, ...timeouts }
    if (outer.aborted) this.#onOuterAbort()
    else outer.addEventListener('abort', this.#onOuterAbort, { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Starts the clock of the whole answer. */
  startTotal(): void {
    this.#total = this.#timer(this.#limitsMs.total, 'did not finish its answer')
  }

  /** Starts the clock of a stream's first event. */
  startFirstToken(): void {
    this.#silence = this.#timer(this.#limitsMs.firstToken, 'sent nothing')
  }

  /** Ends the clock of the first event; that of the silence between two events stands still until `resume`. */
  startIdle(): void {
    this.#silence?.close()
    this.isWaitingForReader = true
    this.#silence = this.#timer(this.#limitsMs.idle, 'fell silent', () => this.isWaitingForReader)
  }

  /** Another event is waited for: the clock of the silence starts anew. */
  resume(): void {
    this.isWaitingForReader = false
    this.#silence?.refresh()
  }

  /** Ends every clock, and lets go of the outer signal. */
  end(): void {
    this.#silence?.close()
    this.#total?.close()
    this.#outer.removeEventListener('abort', this.#onOuterAbort)
  }

  /** Ends whatever still goes on under the signal. */
  abort(): void {
    this.#controller.abort()
  }

  #timer(milliseconds: number, what: string, isHeld: () => boolean = () => false): Alarm {
    return this.#clock.setTimeout(() => {
      if (isHeld()) return
      const message = `The model ${what} for ${milliseconds} ms. Try again later.`
      this.#controller.abort(new ApiError(504, 'upstream_timeout', message))
    }, milliseconds)
  }
}
