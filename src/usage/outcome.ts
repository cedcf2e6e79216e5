import { type Clock, machineClock } from '../clock.ts'
import { ApiError } from '../errors.ts'
import type { FinishReason } from '../openai/finish-reasons.ts'
import { Meter } from './meter.ts'
import { stateOf } from './states.ts'

/** The model that answers a request. */
export interface Answering {
  /** The model's name in this service. */
  readonly name: string
  /** The name in `models.json`; for a prefix it is the pattern, such as `local/*`. */
  readonly configuredName: string
  /** How often the model was asked again after a failure. */
  readonly retries: number
}

/** The end of a chat request: the finish reason of its reply, or the error that it failed with. */
export type End = FinishReason | ApiError

/** The outcome of one chat request, for the log, the ledger and the metrics. */
export class Outcome {
  /** The token counter of the request. */
  readonly meter = new Meter()
  /** Undefined until a model answers. */
  answering: Answering | undefined
  /** If the upstream has cut the prompt, the prompt's tokens by its count and by our count, such as `2048/8190`; else null. */
  truncated: string | null = null
  #end: End | undefined
  #sentAtMs: number | undefined
  readonly #clock: Pick<Clock, 'now'>

  /** @param clock measures for how long the upstream has the request */
  constructor(clock: Pick<Clock, 'now'> = machineClock) {
    this.#clock = clock
  }

  /** Notes that the upstream has the whole request, or with false that the attempt has failed. */
  noteSent(isSent: boolean): void {
    this.#sentAtMs = isSent ? (this.#sentAtMs ?? this.#clock.now()) : undefined
  }

  /** For how many seconds the upstream has had the whole request; 0 if it has not got it, or has failed. */
  get upstreamSeconds(): number {
    return this.#sentAtMs === undefined ? 0 : (this.#clock.now() - this.#sentAtMs) / 1000
  }

  /** Sets the end of the request; only the first end counts. @returns whether this end is the first */
  end(end: End): boolean {
    if (this.#end !== undefined) return false
    this.#end = end
    return true
  }

  /** The end's name in the log: a finish reason, or the code of the error; undefined until the request ends. */
  get reason(): string | undefined {
    return this.#end instanceof ApiError ? this.#end.code : this.#end
  }

  /** The end's name in the ledger: a finish reason, or one of the states of a failure; `running` until the request ends. */
  get state(): string {
    return this.#end instanceof ApiError ? stateOf(this.#end) : (this.#end ?? 'running')
  }

  /** Whether the caller ended the request: its client left, or its key ended. Then the upstream may have written unseen tokens. */
  get isEndedByCaller(): boolean {
    return this.state === 'client_gone' || this.state === 'key_revoked'
  }

  /**
   * Whether no tokens were used: the model or the service refused the request or failed, before the model sent anything. After a
   * timeout or an abort, the request is not free, because the model may have read the prompt.
   */
  get isFree(): boolean {
    return !this.meter.hasBegun && (this.state === 'refused' || this.state.endsWith('_error'))
  }
}
