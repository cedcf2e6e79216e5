import type { Passage } from '../models/model.ts'
import { type Chunk, type Counts, countsOf, usageIn } from '../openai/completion.ts'

/** What a request has used. */
export interface Used {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Whether the model itself said so. */
  readonly isExact: boolean
}

/** Words as messages and the pieces of streamed ones carry them. */
interface Words {
  readonly content?: string | null
  readonly tool_calls?: readonly {
    readonly function?: { readonly arguments?: string }
    /** A call of a custom tool has this in its place. */
    readonly custom?: { readonly input?: string }
  }[]
}

/** Characters of text to a token of a reply. */
const charactersPerToken = 4

/**
 * Counts what a reply uses while it passes: what the model says of it, and until then an estimate that costs next to
 * nothing, from the sizes of what passes unread.
 */
export class Meter {
  #reported: Counts | undefined
  #isExact = false
  /** Of the chunks that were read. */
  #textTokens = 0
  /** Of the passages. */
  #bytes = 0
  #events = 0
  #envelope = 0

  /** Takes note of a chunk that was read. */
  countChunk(chunk: Pick<Chunk, 'choices' | 'usage'>): void {
    this.setUsage(usageIn(chunk), true)
  }

  /** Counts words of a reply that do not belong to a passage; upstreams may leave them out, or send anything. */
  countText(words: Words | null | undefined): void {
    let length = typeof words?.content === 'string' ? words.content.length : 0
    if (Array.isArray(words?.tool_calls)) {
      for (const call of words.tool_calls) length += (call?.function?.arguments ?? call?.custom?.input)?.length ?? 0
    }
    if (length > 0) this.#textTokens += Math.ceil(length / charactersPerToken)
  }

  /** Takes note of events that pass unread: one has a token at least, and more when it is longer than the first. */
  countPassage({ passage, events, firstLength }: Passage): void {
    this.#bytes += passage.length
    this.#events += events
    if (this.#envelope === 0) this.#envelope = firstLength
  }

  /** What was used, by the model's own words or by a count that is better than the estimate. */
  setUsage(usage: unknown, isExact: boolean): void {
    const counts = this.#isExact && !isExact ? undefined : countsOf(usage)
    if (!counts) return
    this.#reported = counts
    this.#isExact = isExact
  }

  /** Tokens of the prompt by the model's own words; undefined where it told none. */
  get reportedPromptTokens(): number | undefined {
    return this.#isExact ? this.#reported?.prompt_tokens : undefined
  }

  /** Whether anything has come from the model. */
  get hasBegun(): boolean {
    return this.#reported !== undefined || this.#textTokens + this.#events > 0
  }

  /** What has been used so far. @param prompt estimates the tokens of the prompt, where nobody told them */
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
