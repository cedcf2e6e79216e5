import { ApiError } from '../errors.ts'
import type { FinishReason } from '../openai/finish-reasons.ts'
import { Meter } from './meter.ts'
import { stateOf } from './states.ts'

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
