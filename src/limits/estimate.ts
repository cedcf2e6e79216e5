import { type CompletionRequest, type Message, textOf } from '../openai/completion-request.ts'
import { FrozenMessagesCache } from '../openai/frozen-messages-cache.ts'
import { minTokensPerMessage, type PromptSize } from '../openai/messages.ts'

/** Tokens of a reply whose request sets no maximum. */
const longReply = 1024
/** Bytes of a token, for estimates. A token of prose has four or more bytes, so the estimate is rather too high. */
export const bytesToToken = 3
/** Tokens of a part that is not text: an image, a sound. */
const otherPart = 1000

const counted = new FrozenMessagesCache(sizeOf)

/** Fields of a request that a model reads besides the messages. */
const readBeside = ['tools', 'functions', 'response_format', 'prediction'] as const

/** The size of messages. The size of frozen messages is cached. */
export function promptSize(messages: readonly Message[]): PromptSize {
  let bytes = 0
  let more = 0
  for (const run of counted.of(messages)) {
    bytes += run.bytes
    more += run.more
  }
  return { bytes, more }
}

/**
 * A rather too high estimate of a prompt's tokens: one for three bytes, four for a message, 1,000 for an image or a sound.
 * @param size the size of the messages, if it is known: then the messages are not read
 */
export function promptEstimate(
  request: { readonly messages: readonly Message[] },
  size: PromptSize = promptSize(request.messages),
): number {
  let { bytes } = size
  for (const name of readBeside) bytes += bytesOf(Reflect.get(request, name))
  return Math.ceil(bytes / bytesToToken) + size.more
}

function sizeOf(messages: readonly Message[]): PromptSize {
  let bytes = 0
  let more = 0
  for (const message of messages) {
    bytes += Buffer.byteLength(textOf(message)) + bytesBesideText(message)
    more += minTokensPerMessage + otherPart * otherParts(message)
  }
  return { bytes, more }
}

/** Bytes of a message besides its text: a name, a refusal, tool calls, and fields that only upstreams know. */
function bytesBesideText(message: Message): number {
  let bytes = 0
  for (const name in message) {
    if (name !== 'role' && name !== 'content') bytes += bytesOf(Reflect.get(message, name))
  }
  if (!Array.isArray(message.content)) return bytes
  return message.content.reduce((sum, { refusal }) => sum + bytesOf(refusal), bytes)
}

/**
 * Bytes of a text, or of any other value as JSON whose texts have no escapes; 0 for null and undefined. The result is rather too
 * high: each number counts with the most bytes that it may have, and each container with one comma more. Writing the JSON would
 * take several times as long.
 */
function bytesOf(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  return value == null ? 0 : bytesOfJson(value)
}

/** Bytes of the brackets of an object or array, of the quotation marks of a text, and of the comma after a value. */
const bracketBytes = 2
const quoteBytes = 2
const commaBytes = 1
/** The most bytes of an integer of up to six digits, and of any other number. To write the number would take a microsecond. */
const bytesOfSmallInteger = 7
const bytesOfNumber = 24

function bytesOfJson(value: unknown): number {
  if (typeof value === 'string') return quoteBytes + Buffer.byteLength(value)
  if (typeof value === 'number')
    return Number.isSafeInteger(value) && Math.abs(value) < 1e6 ? bytesOfSmallInteger : bytesOfNumber
  if (typeof value !== 'object' || value === null) return String(value).length
  let bytes = bracketBytes
  if (Array.isArray(value)) {
    for (const item of value) bytes += bytesOfJson(item) + commaBytes
    return bytes
  }
  for (const [name, each] of Object.entries(value)) {
    // A name has quotation marks too, and a colon in place of the comma.
    if (each !== undefined) bytes += bytesOfJson(name) + commaBytes + bytesOfJson(each) + commaBytes
  }
  return bytes
}

/** The tokens that a reply may have: for each choice the request's maximum, or 1,024 by default. */
export function replyEstimate(request: Pick<CompletionRequest, 'max_completion_tokens' | 'max_tokens' | 'n'>): number {
  // An upstream obeys one of the two parameters, but it is unknown which one. -1 means no maximum, like a missing parameter.
  const allowed = Math.max(request.max_completion_tokens ?? 0, request.max_tokens ?? 0, 0)
  return (allowed || longReply) * (request.n ?? 1)
}

function otherParts({ content }: Message): number {
  return Array.isArray(content) ? content.filter(({ type }) => type !== 'text' && type !== 'refusal').length : 0
}
