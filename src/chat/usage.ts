import { toApiError } from '../errors.ts'
import { bytesToToken, promptEstimate } from '../limits/estimate.ts'
import type { TokenCounts } from '../models/count-tokens.ts'
import type { ModelReply, SentPrompt } from '../models/model.ts'
import { type Chunk, countsOf, type Usage, usageIn, wordsOf } from '../openai/completion.ts'
import { GrowingText } from '../text.ts'
import type { Work } from '../work/work.ts'

/** The most characters of a stream that are kept to count their tokens. The tokens of the rest are estimated from its bytes. */
const maxKeptLength = 1024 ** 2

/**
 * Reads the usage of a stream whose caller asked for usage. The stream ends with exactly one usage chunk. This chunk has the last
 * usage that the model sent in any chunk, or an estimate by Conservatory's tokenizer.
 */
export class UsageWatch {
  readonly #work: Work
  #prompt: SentPrompt = { messages: [] }
  #head: Head = { id: '', object: 'chat.completion.chunk', created: 0, model: '' }
  #last: Chunk | undefined
  readonly #text = new GrowingText()
  #keptLength = 0
  /** The bytes of the texts that are not kept. */
  #otherBytes = 0

  /** @param work counts the tokens of an estimate, within the budget of the request */
  constructor(work: Work) {
    this.#work = work
  }

  /** Sets the messages that an estimate counts. */
  begin(prompt: SentPrompt): void {
    this.#prompt = prompt
  }

  /** Reads one chunk of the stream. */
  note(chunk: Chunk): void {
    const { id, object, created, model } = this.#head
    this.#head = { id: id || chunk.id, object, created: created || chunk.created, model: model || chunk.model }
    if (countsOf(usageIn(chunk))) this.#last = chunk
    for (const { delta } of chunk.choices) this.#addText(wordsOf(delta))
  }

  #addText(text: string): void {
    if (this.#keptLength + text.length > maxKeptLength) {
      this.#otherBytes += Buffer.byteLength(text)
      return
    }
    this.#keptLength += text.length
    this.#text.add(text)
  }

  /** The usage chunk, without choices, as OpenAI sends it. If the upstream sent a usage chunk, its other fields are kept. */
  async chunk(): Promise<Chunk & { readonly usage: Usage }> {
    const last = this.#last
    const reported = last && usageIn(last)
    const usage = isUsage(reported) ? reported : await this.#estimate()
    return { ...(last?.choices.length === 0 ? last : {}), ...this.#head, choices: [], usage }
  }

  #estimate(): Promise<Usage> {
    return estimateOf(this.#prompt, this.#text.toString(), this.#work, this.#otherBytes)
  }
}

/** The fields that all chunks of one answer share; empty until a chunk has them. */
type Head = Pick<Chunk, 'id' | 'object' | 'created' | 'model'>

function isUsage(usage: unknown): usage is Usage {
  return countsOf(usage) !== undefined
}

/** Estimates the usage of a whole answer that came without usage. @param prompt the messages that the model answered */
export function usageOf({ completion }: ModelReply, prompt: SentPrompt, work: Work): Promise<Usage> {
  return estimateOf(prompt, completion.choices.map(({ message }) => wordsOf(message)).join(''), work)
}

/**
 * Counts a prompt and its answer with Conservatory's tokenizer. If counting is too much work for one request, or the service is
 * overloaded, the tokens are estimated from the bytes: the reply is complete and must not fail.
 * @param otherBytes the bytes of the answer beside this text
 * @throws the reason of the request's signal when it aborts
 */
async function estimateOf(prompt: SentPrompt, answer: string, work: Work, otherBytes = 0): Promise<Usage> {
  const tokens = await tokensOf(prompt, answer, work)
  const prompt_tokens = tokens.prompt
  const completion_tokens = tokens.answer + Math.ceil(otherBytes / bytesToToken)
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}

async function tokensOf(prompt: SentPrompt, answer: string, work: Work): Promise<TokenCounts> {
  try {
    return await countTokens(prompt, answer, work)
  } catch (error) {
    if (!['too_complex', 'overloaded'].includes(toApiError(error).code)) throw error
    return {
      prompt: promptEstimate(prompt, prompt.size),
      answer: Math.ceil(Buffer.byteLength(answer) / bytesToToken),
    }
  }
}

let counting: Promise<typeof import('../models/count-tokens.ts')> | undefined

/**
 * Counts the tokens of a prompt and of its answer. The tokenizer is loaded at the first use, because few requests need it.
 * @throws the errors of `work`
 */
export async function countTokens(prompt: SentPrompt, answer: string, work: Work): Promise<TokenCounts> {
  counting ??= import('../models/count-tokens.ts')
  return (await counting).countTokens(prompt, answer, work)
}

/** Only prompts of more than this many tokens are checked. */
const minPromptTokens = 1024
/** The exact count is at most this many times the quick estimate. The estimate is too low for a text of short words. */
const maxEstimateError = 1.25

/**
 * Detects an upstream that truncated the prompt silently, as Ollama does (docs/upstreams.md). Such an upstream counts fewer than
 * half of the tokens that Conservatory counts. Only prompts of more than 1,024 tokens are checked.
 * @param reported the prompt tokens that the upstream reported; undefined if it reported none
 * @returns the two counts as `<theirs>/<ours>` if the prompt was truncated, else null. The result is undefined, without a
 * promise, if the upstream reported no tokens or a quick estimate shows that the prompt was not truncated
 */
export function truncationOf(
  reported: number | undefined,
  prompt: SentPrompt,
  work: Work,
): Promise<string | null> | undefined {
  // An upstream that reports 0 has not counted.
  if (!reported) return undefined
  const maxTokens = maxEstimateError * promptEstimate(prompt, prompt.size)
  return maxTokens > minPromptTokens && 2 * reported < maxTokens ? compared(reported, prompt, work) : undefined
}

async function compared(reported: number, prompt: SentPrompt, work: Work): Promise<string | null> {
  try {
    const { prompt: ours } = await countTokens(prompt, '', work)
    return ours > minPromptTokens && 2 * reported < ours ? `${reported}/${ours}` : null
  } catch {
    // The reply is complete and must not fail because of a warning.
    return null
  }
}
