import type { Clock, Timer } from '../../clock.ts'
import { ApiError, toApiError } from '../../errors.ts'
import type { Timeouts } from '../configuration/settings.ts'
import { showsBrokenModel } from '../faults.ts'
import type { ModelRequest } from '../model.ts'
import { withModel } from '../reason.ts'
import type { Breaker, Probe } from './breaker.ts'

/** The model that an attempt asks, and the request that it sends. */
export interface AttemptDetails {
  /** The model's name in `models.json`. For a model behind a prefix, this name is the prefix, such as `local/*`. */
  readonly configuredName: string
  /** The model's id at the upstream. */
  readonly upstreamId: string
  readonly request: ModelRequest
  readonly isStream: boolean
  /** How many attempts at this model came before this one. */
  readonly retries: number
}

/** One attempt to get an answer from a model. Metrics count the attempt, and traces show it. */
export interface Attempt {
  /** Headers that this attempt sends upstream, such as `traceparent`. */
  readonly headers?: Readonly<Record<string, string>>
  /** Call this method when the first event of a stream has come. */
  began(): void
  /** Call this method at the end. A failed attempt passes its error, which is `client_gone` if the client has left. */
  ended(error?: ApiError): void
}

/** Called at the start of each attempt. */
export type WatchAttempt = (attempted: AttemptDetails) => Attempt

const unwatched: Attempt = { began() {}, ended() {} }

/** Records nothing. For attempts that metrics and traces do not count, such as the attempts of a command. */
export const ignoreAttempts: WatchAttempt = () => unwatched

/** The parts that learn how an attempt ends, and the details for its errors. */
interface AttemptContext {
  readonly deadlines: Deadlines
  readonly watched: Attempt
  /** Null for a model without a circuit breaker. */
  readonly breaker: Breaker | null
  readonly probe: Probe | undefined
  /** Name and host of the model. */
  readonly traits: { readonly name: string; readonly host?: string }
}

/** An attempt in progress. Its end ends the deadlines, and is reported to the breaker, the metrics and the traces. */
export class RunningAttempt {
  /** The request, with the headers of this attempt. */
  readonly request: ModelRequest
  readonly deadlines: Deadlines
  readonly #context: AttemptContext

  constructor(request: ModelRequest, context: AttemptContext) {
    const { headers } = context.watched
    this.request = headers ? { ...request, trace: headers } : request
    this.deadlines = context.deadlines
    this.#context = context
  }

  /** The first event of a stream has come. */
  begin(): void {
    const { deadlines, watched, breaker, probe } = this.#context
    breaker?.recordFirstEvent(probe)
    watched.began()
    deadlines.startIdle()
  }

  /** The whole answer has come. */
  succeed(): void {
    const { deadlines, watched, breaker } = this.#context
    deadlines.end()
    breaker?.recordSuccess()
    watched.ended()
  }

  /**
   * The attempt has failed. A model that stops or is silent in the middle of an answer counts as failed, like a model that never
   * answered.
   * @returns the reason of the deadline that has passed, or else the error, with the name of the model
   */
  fail(thrown: unknown): ApiError {
    const { deadlines, watched, breaker, probe, traits } = this.#context
    const { aborted, reason } = deadlines.signal
    const error = withModel(toApiError(aborted ? reason : thrown), traits)
    deadlines.end()
    if (showsBrokenModel(error)) breaker?.recordFailure(probe)
    else breaker?.endWithoutResult(probe)
    watched.ended(error)
    return error
  }

  /** The reader does not want the rest of the answer. The breaker learns nothing. */
  giveUp(): void {
    const { deadlines, watched } = this.#context
    deadlines.end()
    watched.ended(new ApiError(499, 'client_gone', 'The client does not want the rest of the answer.'))
    deadlines.abort()
  }
}

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
