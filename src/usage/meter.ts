import type { Passage } from '../models/model.ts'
import { type Chunk, type Counts, countsOf, usageIn, type Words, wordsOf } from '../openai/completion.ts'

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
  /** Estimated tokens of the texts that are parsed. */
  #textTokens = 0
  /** Bytes of the passages, which are passed on unparsed. */
  #bytes = 0
  #events = 0
  /** Bytes of the first event, which has nearly no text. In every event, this number of bytes counts as JSON around the text. */
  #envelope = 0

  /** Takes the usage of a parsed chunk. `countText` or `countPassage` counts the texts of the chunk. */
  countChunk(chunk: Pick<Chunk, 'choices' | 'usage'>): void {
    this.setUsage(usageIn(chunk), true)
  }

  /** Counts parsed texts of a reply; upstreams may omit any field, or send values of other types. */
  countText(said: Words | null | undefined): void {
    const { length } = wordsOf(said)
    if (length > 0) this.#textTokens += Math.ceil(length / charactersPerToken)
  }

  /** Counts events that are passed on unparsed: at least one token for each event, and more for longer events. */
  countPassage({ passage, events, firstLength }: Passage): void {
    this.#bytes += passage.length
    this.#events += events
    if (this.#envelope === 0) this.#envelope = firstLength
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
    return this.#reported !== undefined || this.#textTokens + this.#events > 0
  }

  /** The tokens used so far. @param prompt estimates the prompt's tokens; called only without a report */
  used(prompt: () => number): Used {
    if (this.#reported) {
      const { prompt_tokens, completion_tokens } = this.#reported
      return { promptTokens: prompt_tokens, completionTokens: completion_tokens, isExact: this.#isExact }
    }
    const more = Math.max(0, this.#bytes - this.#events * this.#envelope) / charactersPerToken
    const passed = Math.max(this.#events, Math.ceil(more))
    return { promptTokens: prompt(), completionTokens: this.#textTokens + passed, isExact: false }
  }
}
