import { toApiError } from '../errors.ts'
import { bytesToToken, promptEstimate } from '../limits/estimate.ts'
import type { Chunk } from '../openai/completion.ts'
import type { Message } from '../openai/completion-request.ts'
import type { Steps, Work } from '../work.ts'

/**
 * Watches a stream whose caller asked for its usage, so that there is exactly one usage chunk at its end:
 * what the model said, wherever it said it, else an estimate by our own tokenizer.
 */
export class UsageWatch {
  readonly #work: Work
  #prompt: readonly Message[] = []
  #first: Chunk | undefined
  #last: Chunk | undefined
  #text = ''

  /** @param work of the request, which an estimate is part of */
  constructor(work: Work) {
    this.#work = work
  }

  /** Begins to watch what answers these messages, which an estimate counts. */
  begin(prompt: readonly Message[]): void {
    this.#prompt = prompt
  }

  /** Takes note of one chunk of the stream. */
  note(chunk: Chunk): void {
    this.#first ??= chunk
    if (chunk.usage != null) this.#last = chunk
    for (const { delta } of chunk.choices) {
      if (delta?.content) this.#text += delta.content
      for (const call of delta?.tool_calls ?? []) this.#text += call.function?.arguments ?? ''
    }
  }

  /** The usage chunk, in OpenAI's shape: no choices. */
  async chunk(): Promise<Chunk> {
    const { id, created, model } = this.#last ?? this.#first ?? { id: '', created: 0, model: '' }
    const usage = this.#last?.usage ?? (await this.#estimate())
    // An upstream's usage chunk keeps whatever else it says.
    const said =
      this.#last?.choices.length === 0 ? this.#last : { id, object: 'chat.completion.chunk' as const, created, model }
    return { ...said, choices: [], usage }
  }

  async #estimate() {
    const { loadTokenizer } = await import('../models/tokenizer.ts')
    const tokenizer = await loadTokenizer()
    const prompt_tokens = await this.#counted(tokenizer.countMessages(this.#prompt), () =>
      promptEstimate({ messages: [...this.#prompt] }),
    )
    const completion_tokens = await this.#counted(tokenizer.countSteps(this.#text), () =>
      Math.ceil(Buffer.byteLength(this.#text) / bytesToToken),
    )
    return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
  }

  /** Counts tokens; by their bytes where that takes too much work: the reply is there, and must not fail by it. */
  async #counted(steps: Steps<number>, byBytes: () => number): Promise<number> {
    try {
      return await this.#work.run('messages', steps)
    } catch (error) {
      if (toApiError(error).code !== 'too_complex') throw error
      return byBytes()
    }
  }
}
