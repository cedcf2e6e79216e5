import type { Clock, Timer } from '../../clock.ts'
import { ApiError } from '../../errors.ts'
import type { Timeouts } from '../configuration/settings.ts'

/** The limits that apply if the settings of the model do not set them. */
const defaultLimitsMs = { firstToken: 300_000, idle: 120_000, total: 1_800_000 } as const

/**
 * The deadlines of one attempt. At the first deadline that passes, the signal aborts with a 504 that names the deadline. When the
 * outer signal aborts, the signal aborts too, with the same reason.
 */
export class Deadlines {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal
  readonly #clock: Clock
  readonly #limitsMs: Required<Pick<Timeouts, 'firstToken' | 'idle' | 'total'>>
  readonly #onOuterAbort = () => this.#controller.abort(this.#outer.reason)
  /** The deadline of the whole answer. */
  readonly #total: Timer
  /** The deadline of a stream's first event, and then of the time between two events. */
  #silence: Timer | undefined
  /**
   * Whether an event has come and the reader has not yet asked for the next event. During this time the idle deadline does not
   * apply.
   */
  isWaitingForReader = false

  /** Starts the deadlines. @param isStream whether the first event has a deadline of its own */
  constructor(outer: AbortSignal, clock: Clock, isStream: boolean, timeouts: Timeouts = {}) {
    this.#outer = outer
    this.#clock = clock
    this.#limitsMs = { ...defaultLimitsMs, ...timeouts }
    if (outer.aborted) this.#onOuterAbort()
    else outer.addEventListener('abort', this.#onOuterAbort, { once: true })
    this.#total = this.#timer(this.#limitsMs.total, 'has not finished its answer')
    if (isStream) this.#silence = this.#timer(this.#limitsMs.firstToken, 'sent nothing')
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Ends the deadline of the first event. `resume` then starts the idle deadline, which bounds the time between two events. */
  startIdle(): void {
    this.#silence?.close()
    this.isWaitingForReader = true
    this.#silence = this.#timer(this.#limitsMs.idle, 'was silent', () => this.isWaitingForReader)
  }

  /** Restarts the idle deadline. Call this method when the reader asks for the next event. */
  resume(): void {
    this.isWaitingForReader = false
    this.#silence?.refresh()
  }

  /** Ends every deadline, and removes the listener from the outer signal. */
  end(): void {
    this.#silence?.close()
    this.#total.close()
    this.#outer.removeEventListener('abort', this.#onOuterAbort)
  }

  /** Aborts the signal, which ends the attempt. */
  abort(): void {
    this.#controller.abort()
  }

  #timer(milliseconds: number, what: string, isPaused: () => boolean = () => false): Timer {
    return this.#clock.setTimeout(() => {
      if (isPaused()) return
      const message = `The model ${what} for ${milliseconds} ms. Try again later.`
      this.#controller.abort(new ApiError(504, 'upstream_timeout', message))
    }, milliseconds)
  }
}
