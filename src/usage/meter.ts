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
