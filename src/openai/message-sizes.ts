import { type Message, textOf } from './completion-request.ts'
import { calledBy } from './tools.ts'

/**
 * The tokens of OpenAI's chat format, besides the texts of a conversation ("How to count tokens with tiktoken" in OpenAI's
 * cookbook).
 */

/** Tokens that open the reply. */
export const tokensPerReply = 3
const perMessage = 3
const perRole = 1
const perName = 1

/** The size of messages, for an estimate of their tokens. */
export interface PromptSize {
  /** Bytes that a model may read. */
  readonly bytes: number
  /** The tokens that are added for messages and for parts without text. */
  readonly more: number
}

/** Tokens of a message with empty texts. */
const minTokensPerMessage = perMessage + perRole

/** The tokens of a message, not counting its texts. */
export function tokensBesideTexts({ name }: Message): number {
  return minTokensPerMessage + (name ? perName : 0)
}

/** All texts of a message that a model reads, except its role, which is always one token. */
export function textsOf(message: Message): readonly string[] {
  const texts = message.name ? [message.name, textOf(message)] : [textOf(message)]
  for (const { name, text } of (message.tool_calls ?? []).map(calledBy)) texts.push(name, text)
  return texts
}

/**
 * Messages with nothing but their texts, for a worker: other fields may have numbers in raw JSON, which no worker can get. A frozen
 * message is plain, because it comes from a card, and stays the same object, because token counts are cached by it.
 */
export function plainMessages(messages: readonly Message[]): readonly Message[] {
  const plain = messages.slice()
  for (const [index, message] of messages.entries()) if (!Object.isFrozen(message)) plain[index] = plainMessage(message)
  return plain
}

function plainMessage(message: Message): Message {
  const { role, name, tool_calls: calls } = message
  const plainCalls = calls?.map((call) => {
    const { name, text } = calledBy(call)
    return { id: call.id, type: 'function' as const, function: { name, arguments: text } }
  })
  return { role, content: textOf(message), ...(name && { name }), ...(plainCalls && { tool_calls: plainCalls }) }
}

/** The most characters of a run of frozen messages that is cached. */
const maxKeptLength = 256 * 1024
/**
 * The most characters of the frozen messages in a cache. A card has different frozen messages for each of its users, and for each
 * set of lore before them.
 */
const maxTotalLength = 4 * 1024 ** 2

/** Frozen messages, and the value that was made from them. */
interface FrozenMessages<T> {
  readonly messages: readonly Message[]
  readonly made: T
}

/**
 * Caches a value that is made from frozen messages which follow each other. The messages that come from a card are frozen, and all
 * requests of one user with this card have the same of them. They are the largest part of a prompt: without this cache, a
 * completion takes 4.4 % more CPU time (bench/figures.md).
 */
export class FrozenMessagesCache<T> {
  readonly #make: (messages: readonly Message[]) => T
  /** The last run of frozen messages that begins with a message. */
  #kept = new WeakMap<Message, FrozenMessages<T>>()
  /** The characters that were added to `#kept`, including those that were replaced later. */
  #length = 0

  constructor(make: (messages: readonly Message[]) => T) {
    this.#make = make
  }

  /** The values of all messages, in their order: one for each run of frozen messages, and one for each run of others. */
  of(messages: readonly Message[]): readonly T[] {
    const values: T[] = []
    let start = 0
    for (let index = 0; index < messages.length; ) {
      const frozen = this.#runAt(messages, index)
      if (frozen && start < index) values.push(this.#make(messages.slice(start, index)))
      if (frozen) values.push(frozen.made)
      index += frozen?.messages.length ?? 1
      if (frozen) start = index
    }
    if (start < messages.length) values.push(this.#make(start === 0 ? messages : messages.slice(start)))
    return values
  }

  /** The frozen messages at a place. Undefined if the message there is not frozen, or if the run is too long to be kept. */
  #runAt(messages: readonly Message[], start: number): FrozenMessages<T> | undefined {
    const first = messages[start]
    if (!first || !Object.isFrozen(first)) return undefined
    const kept = this.#kept.get(first)
    if (kept && isRunAt(start, kept.messages, messages)) return kept
    let end = start + 1
    while (end < messages.length && Object.isFrozen(messages[end])) end++
    const frozen = messages.slice(start, end)
    const length = frozen.reduce((sum, message) => sum + textOf(message).length, 0)
    if (length > maxKeptLength) return undefined
    const run = { messages: frozen, made: this.#make(frozen) }
    if (this.#length + length > maxTotalLength) {
      this.#kept = new WeakMap()
      this.#length = 0
    }
    this.#length += length
    this.#kept.set(first, run)
    return run
  }
}

/** Whether these are all frozen messages from a place on. */
function isRunAt(start: number, known: readonly Message[], messages: readonly Message[]): boolean {
  // A loop with an index is faster than an iterator, and each prompt may compare hundreds of messages.
  for (let index = 0; index < known.length; index++) if (known[index] !== messages[start + index]) return false
  const next = messages[start + known.length]
  return next === undefined || !Object.isFrozen(next)
}

/** Tokens of a part that is not text: an image, a sound. */
const otherPart = 1000

const counted = new FrozenMessagesCache(sizeOf)

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
export function bytesOf(value: unknown): number {
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

function otherParts({ content }: Message): number {
  return Array.isArray(content) ? content.filter(({ type }) => type !== 'text' && type !== 'refusal').length : 0
}
