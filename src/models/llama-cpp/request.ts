import { randomInt } from 'node:crypto'
import { cardOf } from '../../characters/cards/kept-card.ts'
import { type ApiError, invalidField } from '../../errors.ts'
import { type CompletionRequest, type Message, maxChoices, maxReplyTokensOf } from '../../openai/completion-request.ts'
import type { ModelRequest } from '../model.ts'
import type { HistoryItem, ResponseOptions } from './node-llama-cpp.ts'

/** A request as the engine takes it. */
export interface Task {
  readonly history: readonly HistoryItem[]
  readonly sampling: Sampling
  /** The number of answers. */
  readonly choices: number
  /** The most tokens of one answer. Undefined for as many tokens as fit into the context. */
  readonly maxTokens: number | undefined
}

export type Sampling = Pick<
  ResponseOptions,
  'temperature' | 'topK' | 'topP' | 'minP' | 'seed' | 'repeatPenalty' | 'customStopTriggers'
>

/** OpenAI's parameters that models of this adapter do not honour. Tools would need a parser for each chat template. */
export const ignoredParameters: ReadonlySet<string> = new Set([
  'audio',
  'function_call',
  'functions',
  'logit_bias',
  'logprobs',
  'modalities',
  'parallel_tool_calls',
  'prediction',
  'reasoning_effort',
  'response_format',
  'service_tier',
  'store',
  'tool_choice',
  'tools',
  'top_logprobs',
  'verbosity',
  'web_search_options',
])

/** The number of last tokens of an answer that are penalised when the model repeats them. */
const penaltyTokens = 256

/**
 * Reads a request. Absent parameters get the defaults of llama.cpp's server. `top_k`, `min_p` and `repeat_penalty`, which
 * OpenAI's API lacks, have the names of that server.
 * @throws ApiError 400 that names the field
 */
export function readTask({ body, persona }: ModelRequest): Task {
  const number = numberReader(body)
  return {
    history: body.messages.map((message, index) => {
      checkMessage(message, `messages[${index}]`)
      return readMessage(message, persona)
    }),
    sampling: {
      temperature: number('temperature', 0, 100, 0.8),
      topK: Math.floor(number('top_k', 0, 2 ** 31 - 1, 40)),
      topP: number('top_p', 0, 1, 0.95),
      minP: number('min_p', 0, 1, 0.05),
      // The sampler takes a seed of 32 bits. Without a seed the sampler would use the time.
      seed: body.seed == null ? randomInt(2 ** 32) : body.seed >>> 0,
      repeatPenalty: {
        lastTokens: penaltyTokens,
        penalty: number('repeat_penalty', 0.01, 10, 1),
        frequencyPenalty: number('frequency_penalty', -2, 2, 0),
        presencePenalty: number('presence_penalty', -2, 2, 0),
      },
      customStopTriggers: [body.stop ?? []].flat().filter((text) => text !== ''),
    },
    choices: number('n', 1, maxChoices, 1),
    maxTokens: maxReplyTokensOf(body),
  }
}

/** Returns a function that reads a number by name, even if the schema of requests does not have that name. */
function numberReader(body: CompletionRequest) {
  const fields = new Map<string, unknown>(Object.entries(body))
  return (name: string, minimum: number, maximum: number, fallback: number): number => {
    const value = fields.get(name) ?? fallback
    if (typeof value === 'number' && value >= minimum && value <= maximum) return value
    throw fault(name, `send a number from ${minimum} to ${maximum}`)
  }
}

function checkMessage(message: Message, at: string): void {
  if (message.role === 'tool' || message.role === 'function') {
    throw fault(`${at}.role`, 'this model calls no tools, so it takes no results of tools')
  }
  if (message.tool_calls?.length) throw fault(`${at}.tool_calls`, 'this model calls no tools')
  if (!Array.isArray(message.content)) return
  for (const [index, { type }] of message.content.entries()) {
    if (type !== 'text' && type !== 'refusal') throw fault(`${at}.content[${index}]`, 'this model takes only text')
  }
}

function readMessage(message: Message, persona: ModelRequest['persona']): HistoryItem {
  const text = contentOf(message)
  if (message.role === 'assistant') return { type: 'model', response: [text] }
  return { type: message.role === 'user' ? 'user' : 'system', text: speakerOf(message, persona) + text }
}

function contentOf({ content, refusal }: Message): string {
  if (typeof content === 'string') return content
  return content?.map((part) => part.text ?? part.refusal ?? '').join('') ?? refusal ?? ''
}

/** The name of the speaker, to be written before the text, because templates have no field for names. Empty without a name. */
function speakerOf({ name }: Message, { card, name: character, userName }: ModelRequest['persona']): string {
  if (!name) return ''
  // OpenAI's guide uses these two names for the speakers of example dialogues.
  if (name === 'example_user') return `${userName}: `
  if (name === 'example_assistant') return `${(card && cardOf(card).nickname) || (character ?? 'Assistant')}: `
  return `${name}: `
}

function fault(param: string, problem: string): ApiError {
  return invalidField(param, `does not suit this model: ${problem}`)
}
