import { type Clock, machineClock } from '../clock.ts'
import { ApiError } from '../errors.ts'
import type { Passage } from '../models/model.ts'
import { type Chunk, type Counts, countsOf, usageIn, type Words, wordsOf } from '../openai/completion.ts'
import type { FinishReason } from '../openai/finish-reasons.ts'
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

/** The tokens of a request. */
export interface Used {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Whether the model reported the tokens; otherwise they are estimated. */
  readonly isExact: boolean
}

/** Characters per token, for estimates. */
const charactersPerToken = 4

/**
 * Counts the tokens of a request. If the model reports its usage, the numbers of the report count. Otherwise the tokens are
 * estimated from the texts that are parsed, and from the sizes of the events that are passed on unparsed.
 */
export class Meter {
  #reported: Counts | undefined
  #isExact = false
  /** Texts that have come: whole ones, or the events of a stream. */
  #texts = 0
  /** Characters of these texts. */
  #length = 0

  /** Counts the texts of a parsed chunk, and takes its usage. */
  countChunk(chunk: Pick<Chunk, 'choices' | 'usage'>): void {
    const usage = usageIn(chunk)
    if (usage != null) this.setUsage(usage, true)
    for (const { delta } of chunk.choices) this.countText(delta)
  }

  /** Counts parsed texts of a reply; upstreams may omit any field, or send values of other types. */
  countText(said: Words | null | undefined): void {
    const { length } = wordsOf(said)
    if (length === 0) return
    this.#texts++
    this.#length += length
  }

  /** Counts events that are passed on unparsed: at least one token for each event, and more for longer events. */
  countPassage({ events, words }: Pick<Passage, 'events' | 'words'>): void {
    this.#texts += events
    this.#length += words
  }

  /** Sets the tokens that the model reported, or a count that is better than the estimate. */
  setUsage(usage: unknown, isExact: boolean): void {
    const counts = this.#isExact && !isExact ? undefined : countsOf(usage)
    if (!counts) return
    this.#reported = counts
    this.#isExact = isExact
  }

  /** The prompt's tokens as the model reported them; undefined without a report. */
  get reportedPromptTokens(): number | undefined {
    return this.#isExact ? this.#reported?.prompt_tokens : undefined
  }

  /** Whether a text, an event or a usage was counted. */
  get hasBegun(): boolean {
    return this.#reported !== undefined || this.#texts > 0
  }

  /** The tokens used so far. @param prompt estimates the prompt's tokens; called only without a report */
  used(prompt: () => number): Used {
    if (this.#reported) {
      const { prompt_tokens, completion_tokens } = this.#reported
      return { promptTokens: prompt_tokens, completionTokens: completion_tokens, isExact: this.#isExact }
    }
    const completionTokens = Math.max(this.#texts, Math.ceil(this.#length / charactersPerToken))
    return { promptTokens: prompt(), completionTokens, isExact: false }
  }
}
