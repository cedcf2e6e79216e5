import { bufferOf, buffersOf, sharedBytes } from '../bytes.ts'
import { compose } from '../characters/prompt/compose.ts'
import {
  type Composition,
  type CompositionRequest,
  type CountTokens,
  type PromptSettings,
  type RequestTexts,
  TokenCounterNeeded,
} from '../characters/prompt/composition.ts'
import type { Fields } from '../fields.ts'
import { maxJsonDepth } from '../http/json.ts'
import { readJson } from '../json.ts'
import { type MessageShape, shapeMessages } from '../models/merge-messages.ts'
import type { ComposedParts } from '../models/model.ts'
import { chatNumbers, type Message } from '../openai/completion-request.ts'
import { type PromptSize, promptSize } from '../openai/message-sizes.ts'
import { defineJob, type Job } from '../work/job.ts'
import type { MakeReceipt, ReceiptAbout, SizedReceipt } from './receipt.ts'

/** The input of `composeJob` and `composeCountedJob`. */
export interface PromptInput {
  readonly request: CompositionRequest | PackedRequest
  /** How the model wants its messages. */
  readonly shape: MessageShape
  /** What a receipt says besides the prompt, if a receipt is wanted. */
  readonly receipt?: ReceiptAbout | undefined
}

/** A request for a worker. Numbers in messages may be raw JSON, which a structured clone refuses, so the messages are JSON. */
interface PackedRequest extends Omit<CompositionRequest, 'messages' | 'texts'> {
  /** The JSON of `PackedFields`. */
  readonly json: Uint8Array
  readonly texts?: Omit<RequestTexts, 'lorebooks'> | undefined
}

interface PackedFields {
  readonly messages: readonly Message[]
  readonly lorebooks?: readonly Fields[]
}

/** A composed prompt. A worker gives JSON in place of messages and parts, and the size of the messages. */
export interface ComposedPrompt extends Pick<Composition, 'dropped' | 'refusedRegexes'> {
  readonly messages: readonly Message[] | Uint8Array
  readonly size?: PromptSize
  /** The parts, if they are wanted. */
  readonly parts?: ComposedParts | Uint8Array | undefined
  readonly receipt?: SizedReceipt | undefined
}

/** What a job with the tokenizer has, and the job without it has not. */
export interface Counting {
  readonly countTokens: CountTokens
  readonly makeReceipt: MakeReceipt
}

/** Defines a job that composes prompts. @param counting null for the job without the tokenizer */
export function definePromptJob(module: string, name: string, counting: Counting | null) {
  const job: Job<PromptInput, ComposedPrompt | null> = {
    ...defineJob(module, name, (input: PromptInput) => composed(input, counting), transfersOf),
    pack: packed,
  }
  return job
}

/** Composes a prompt. The result is null if tokens must be counted: then the caller runs `composeCountedJob`. */
export const composeJob = definePromptJob(import.meta.url, 'composeJob', null)

function composed(input: PromptInput, counting: Counting | null): ComposedPrompt | null {
  try {
    return composedPrompt(input, counting)
  } catch (error) {
    if (error instanceof TokenCounterNeeded) return null
    throw error
  }
}

function composedPrompt(input: PromptInput, counting: Counting | null): ComposedPrompt {
  const isPacked = 'json' in input.request
  const request = 'json' in input.request ? unpacked(input.request) : input.request
  if (input.receipt && !counting) throw new TokenCounterNeeded()
  const composition = compose(request, { countTokens: counting?.countTokens })
  const { dropped, refusedRegexes, sections, lore } = composition
  const messages = shapeMessages(composition.messages, input.shape)
  const parts = request.wantsParts ? { sections, lore, dropped } : undefined
  const receipt = input.receipt && counting?.makeReceipt(input.receipt, request, composition, messages)
  if (!isPacked) return { messages, dropped, refusedRegexes, parts, receipt }
  const size = promptSize(messages)
  return { messages: jsonOf(messages), size, dropped, refusedRegexes, parts: parts && jsonOf(parts), receipt }
}

function transfersOf(output: ComposedPrompt | null): readonly ArrayBuffer[] {
  return [output?.messages, output?.parts, output?.receipt?.json].flatMap((each) =>
    each instanceof Uint8Array ? buffersOf(each) : [],
  )
}

function packed({ request, ...input }: PromptInput): PromptInput {
  if ('json' in request) return { ...input, request }
  const { messages, texts, ...rest } = request
  const { lorebooks, ...otherTexts } = texts ?? { seesCard: true }
  const json = sharedBytes(jsonOf({ messages, lorebooks }))
  return { ...input, request: { ...rest, json, texts: texts && otherTexts } }
}

function unpacked({ json, ...request }: PackedRequest): CompositionRequest {
  const text = bufferOf(json).toString('utf8')
  const bounds = { depth: maxJsonDepth + 1, duplicates: 'last', numbersRead: chatNumbers } as const
  // The main thread has written this JSON from a body that it has checked.
  const { messages, lorebooks } = readJson(text, bounds) as PackedFields
  const texts = request.texts && { ...request.texts, ...(lorebooks && { lorebooks }) }
  return { ...request, messages, texts, settings: sameSettings(request.settings) }
}

/** The settings of the last job in this thread. A worker gets them as a new object each time, and caches are keyed by the object. */
let lastSettings: PromptSettings | undefined

function sameSettings(settings: PromptSettings): PromptSettings {
  if (JSON.stringify(settings) !== JSON.stringify(lastSettings)) lastSettings = settings
  return lastSettings ?? settings
}

function jsonOf(value: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value))
}
