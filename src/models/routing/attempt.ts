import { ApiError, toApiError } from '../../errors.ts'
import { showsBrokenModel } from '../faults.ts'
import type { ModelRequest } from '../model.ts'
import { withModel } from '../reason.ts'
import type { Breaker, Probe } from './breaker.ts'
import type { Deadlines } from './deadlines.ts'

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
