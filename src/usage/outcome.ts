import { ApiError } from '../errors.ts'
import { isCallersFault } from '../models/faults.ts'
import { type FinishReason, finishReasons } from '../openai/completion.ts'
import { Meter } from './meter.ts'

/** The model that answers a request. */
export interface Answering {
  /** Its name here. */
  readonly name: string
  /** The name as it is written in `models.json`, with the star where it has one. */
  readonly configuredName: string
  /** How often it was asked again. */
  readonly retries: number
}

/** The end of a chat request: the finish reason of its reply, or the error that it failed with. */
export type End = FinishReason | ApiError

/** The outcome of one chat request: the log, the ledger and the metrics read it here. */
export class Outcome {
  /** Counts what the reply uses. */
  readonly meter = new Meter()
  /** Undefined until a model answers. */
  answering: Answering | undefined
  /** What of the prompt its upstream has read, `<theirs>/<ours>` in tokens, where that was under half; null otherwise. */
  truncated: string | null = null
  #end: End | undefined

  /** Notes how the request has ended; only the first end counts. @returns whether this is the first */
  end(end: End): boolean {
    if (this.#end !== undefined) return false
    this.#end = end
    return true
  }

  /** The end's name in the log: a finish reason, or the code of the error; undefined until then. */
  get reason(): string | undefined {
    return this.#end instanceof ApiError ? this.#end.code : this.#end
  }

  /** The end's name in the ledger: a finish reason, or one of the states of a failure; `running` until then. */
  get state(): string {
    return this.#end instanceof ApiError ? stateOf(this.#end) : (this.#end ?? 'running')
  }

  /** Whether nothing was used: a model that refused, or failed before it said anything, and nobody told us otherwise. */
  get isFree(): boolean {
    return !this.meter.hasBegun && (this.state === 'refused' || this.state.endsWith('_error'))
  }
}

/** The failures whose state is neither that of a refusal nor that of a model's failure, by their codes. */
const states: Readonly<Record<string, string>> = {
  client_gone: 'client_gone',
  upstream_timeout: 'timeout',
  service_stopping: 'interrupted',
  key_revoked: 'key_revoked',
  key_expired: 'key_revoked',
  account_suspended: 'key_revoked',
  account_deleted: 'key_revoked',
  internal_error: 'internal_error',
}

function stateOf(error: ApiError): string {
  return states[error.code] ?? (isCallersFault(error) ? 'refused' : 'upstream_error')
}

/** Every state that the ledger may have a request in. */
export const allStates: readonly string[] = [
  ...new Set(['running', ...finishReasons, 'refused', 'upstream_error', ...Object.values(states)]),
]

/** States that are no failure: answers, and callers who left before theirs was complete. */
const unfailed: ReadonlySet<string> = new Set([...finishReasons, 'client_gone'])

/** The same states as a list of SQL. */
export const unfailedStates = [...unfailed].map((state) => `'${state}'`).join(', ')

/** Tells whether a request in this state got no answer through a fault, its own or ours. */
export function isFailure(state: string): boolean {
  return !unfailed.has(state)
}
