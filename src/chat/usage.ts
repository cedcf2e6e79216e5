import { toApiError } from '../errors.ts'
import { bytesToToken, promptEstimate } from '../limits/estimate.ts'
import type { ModelReply } from '../models/model.ts'
import { type Chunk, countsOf, type Usage, usageIn } from '../openai/completion.ts'
import type { Message } from '../openai/completion-request.ts'
import { GrowingText } from '../text.ts'
import type { Steps, Work } from '../work.ts'

/**
 * Watches a stream whose caller asked for its usage, so that there is exactly one usage chunk at its end:
 * what the model said, wherever it said it, else an estimate by our own tokenizer.
 */
export class UsageWatch {
  readonly #work: Work
  #prompt: readonly Message[] = []
  #head: Head = { id: '', object: 'chat.completion.chunk', created: 0, model: '' }
  #last: Chunk | undefined
  readonly #text = new GrowingText()

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
    const { id, object, created, model } = this.#head
    this.#head = { id: id || chunk.id, object, created: created || chunk.created, model: model || chunk.model }
    if (countsOf(usageIn(chunk))) this.#last = chunk
    for (const { delta } of chunk.choices) this.#text.add(wordsOf(delta))
  }

  /** The usage chunk, in OpenAI's shape: no choices. An upstream's own keeps whatever else it says. */
  async chunk(): Promise<Chunk & { readonly usage: Usage }> {
    const last = this.#last
    const told = last && usageIn(last)
    const usage = isUsage(told) ? told : await estimateOf(this.#prompt, this.#text.toString(), this.#work)
    return { ...(last?.choices.length === 0 ? last : {}), ...this.#head, choices: [], usage }
  }
}

/** What chunks of one answer have in common; empty until one of them has told it. */
type Head = Pick<Chunk, 'id' | 'object' | 'created' | 'model'>

function isUsage(usage: unknown): usage is Usage {
  return countsOf(usage) !== undefined
}

/** The usage of a whole answer that came without one. @param prompt what it answers */
export function usageOf({ completion }: ModelReply, prompt: readonly Message[], work: Work): Promise<Usage> {
  return estimateOf(prompt, completion.choices.map(({ message }) => wordsOf(message)).join(''), work)
}

/** What a message, or a piece of one, says; upstreams may leave it out, or send anything. */
function wordsOf(said: Words | null | undefined): string {
  let words = typeof said?.content === 'string' ? said.content : ''
  if (!Array.isArray(said?.tool_calls)) return words
  for (const call of said.tool_calls) {
    const written = call?.function?.arguments ?? call?.custom?.input
    if (typeof written === 'string') words += written
  }
  return words
}

interface Words {
  readonly content?: string | null
  readonly tool_calls?: readonly {
    readonly function?: { readonly arguments?: string }
    readonly custom?: { readonly input?: string }
  }[]
}

/** Counts a prompt and what answers it with our own tokenizer. */
async function estimateOf(prompt: readonly Message[], answer: string, work: Work): Promise<Usage> {
  const tokenizer = await (await import('../models/tokenizer.ts')).loadTokenizer()
  const prompt_tokens = await counted(work, tokenizer.countMessages(prompt), () =>
    promptEstimate({ messages: [...prompt] }),
  )
  const completion_tokens = await counted(work, tokenizer.countSteps(answer), () =>
    Math.ceil(Buffer.byteLength(answer) / bytesToToken),
  )
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}

/** Counts tokens; by their bytes where that takes too much work: the reply is there, and must not fail by it. */
async function counted(work: Work, steps: Steps<number>, byBytes: () => number): Promise<number> {
  try {
    return await work.run('messages', steps)
  } catch (error) {
    if (toApiError(error).code !== 'too_complex') throw error
    return byBytes()
  }
}
