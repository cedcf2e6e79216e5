import { ApiError } from '../../errors.ts'
import { type Message, textOf } from '../../openai/completion-request.ts'
import { FrozenMessagesCache, textsOf, tokensBesideTexts, tokensPerReply } from '../../openai/message-sizes.ts'
import { spend } from '../../work/fuel.ts'
import { type CompositionRequest, type CountTokens, TokenCounterNeeded } from './composition.ts'
import { dropOrder, type Lore } from './found-lore.ts'
import { isToolResult } from './injections.ts'
import type { ExampleBlock } from './segments.ts'

/** The parts of a prompt that can be dropped. */
export interface PromptParts {
  readonly lore: readonly Lore[]
  readonly examples: readonly ExampleBlock[]
  /** The greeting and the request's messages. If messages may be dropped, the leading system messages are not in this list. */
  readonly conversation: readonly Message[]
}

/** The context into which a prompt must fit, and the functions that make the prompt and count its tokens. */
export interface FitRequest extends Pick<CompositionRequest, 'replyTokens' | 'overflow' | 'texts'> {
  /** Missing if the tokenizer is not loaded. */
  readonly countTokens?: CountTokens | undefined
  /** Tokens of the model's context, including the reply. */
  readonly contextWindow: number
  /** Makes the messages from the parts that are left. */
  readonly assemble: (parts: PromptParts) => readonly Message[]
}

/**
 * Drops parts until the prompt fits the context: first lore with `@@ignore_on_max_context`, then the examples in reverse order,
 * then other lore, and last the oldest messages if `overflow` allows that. The character's definition is never cut.
 * @param whole the messages of all parts
 * @returns the same object if nothing is dropped
 * @throws ApiError 400 `context_length_exceeded` if the rest does not fit
 * @throws TokenCounterNeeded if tokens must be counted and there is no counter
 */
export function fitToContext(
  parts: PromptParts,
  whole: readonly Message[],
  { contextWindow, replyTokens = 0, overflow, countTokens, assemble, texts }: FitRequest,
): PromptParts {
  const tooLong = (tokens: string) => contextExceeded(tokens, replyTokens, contextWindow, texts)
  const room = contextWindow - replyTokens
  // A token has at least one byte. So if the prompt has at most `room` bytes, it fits, and its tokens need not be counted.
  if (bytes.of(whole).reduce((sum, each) => sum + each, tokensPerReply) <= room) return parts
  if (!countTokens) throw new TokenCounterNeeded()
  // Counting a huge conversation stops as soon as its tokens do not fit, because counting megabytes would take seconds.
  if (overflow === undefined && isHuge(parts.conversation) && exceeds(parts.conversation, room, countTokens)) {
    throw tooLong(`more than ${Math.max(0, room)}`)
  }
  const total = tokensIn(whole, countTokens)
  if (total <= room) return parts
  const fitting = dropUntilFits(parts, total, room, dropsOf(parts, overflow), {
    countTokens,
    countAll: (rest) => tokensIn(assemble(rest), countTokens),
  })
  if (typeof fitting === 'number') throw tooLong(String(fitting))
  return fitting
}

/** The bytes of messages, with the tokens besides their texts. */
const bytes = new FrozenMessagesCache((messages) => tokensIn(messages, bytesOf) - tokensPerReply)

function bytesOf(text: string): number {
  spend(text.length >> 4)
  return Buffer.byteLength(text)
}

/** Units of work for each message, besides the work to count its texts. */
const unitsOfMessage = 15

function tokensIn(messages: readonly Message[], countTokens: CountTokens): number {
  let sum = tokensPerReply
  for (const message of messages) sum += tokensOf(message, countTokens)
  return sum
}

function tokensOf(message: Message, countTokens: CountTokens): number {
  spend(unitsOfMessage)
  let sum = tokensBesideTexts(message)
  for (const text of textsOf(message)) sum += countTokens(text)
  return sum
}

interface Counting {
  readonly countTokens: CountTokens
  /** The exact number of tokens of the whole prompt. */
  readonly countAll: (parts: PromptParts) => number
}

/** When more exact counts than this have found too many tokens, the later counts wait for 2, 4, 8 … further drops. */
const maxFailedCounts = 8

/**
 * Drops one part after another until the rest fits.
 * @param total tokens of the whole prompt
 * @param room tokens of the context without the reply
 * @returns the parts that fit; if the prompt is too long even after all drops, the number of tokens that are left
 */
function dropUntilFits(
  parts: PromptParts,
  total: number,
  room: number,
  drops: Iterable<Drop>,
  { countTokens, countAll }: Counting,
): PromptParts | number {
  let left = total
  const gone = new Set<unknown>()
  let failed = 0
  let waits = 0
  for (const { dropped, texts, messages } of drops) {
    for (const each of dropped) gone.add(each)
    for (const text of texts) left -= countTokens(text)
    for (const message of messages) left -= tokensOf(message, countTokens)
    if (left > room || --waits > 0) continue
    // Two texts can share a token where they meet, so `left` is an estimate. Only a count of the whole prompt is exact.
    const fitting = without(gone, parts)
    left = countAll(fitting)
    if (left <= room) return fitting
    failed += 1
    // A hostile text can make every estimate wrong, so the whole prompt is not counted after each drop.
    waits = failed > maxFailedCounts ? 2 ** (failed - maxFailedCounts) : 0
  }
  const rest = without(gone, parts)
  const tokens = countAll(rest)
  return tokens <= room ? rest : tokens
}

function without(gone: ReadonlySet<unknown>, { lore, examples, conversation }: PromptParts): PromptParts {
  spend((lore.length + examples.length + conversation.length) * 2)
  return {
    lore: lore.filter((each) => !gone.has(each)),
    examples: examples.filter((block) => !gone.has(block)),
    conversation: conversation.filter((message) => !gone.has(message)),
  }
}

function contextExceeded(
  tokens: string,
  replyTokens: number,
  contextWindow: number,
  texts: CompositionRequest['texts'],
): ApiError {
  // The request's persona and author's note are never cut either, so the message names them.
  const brought = texts?.persona !== undefined || texts?.authorNote ? ", or a shorter persona or author's note" : ''
  return new ApiError(
    400,
    'context_length_exceeded',
    `The prompt has ${tokens} tokens and ${replyTokens} more are reserved for the reply, but the model's context has only ${contextWindow} in all. Send fewer or shorter messages${brought}.`,
    { param: 'messages' },
  )
}

/** Characters that are counted before the sum is checked. */
const countedLength = 64 * 1024
/** A conversation with more characters is huge. */
const hugeLength = 512 * 1024

function isHuge(messages: readonly Message[]): boolean {
  return messages.reduce((sum, message) => sum + textOf(message).length, 0) > hugeLength
}

/** Whether messages have more tokens than `maxTokens`. */
function exceeds(messages: readonly Message[], maxTokens: number, countTokens: CountTokens): boolean {
  let sum = 0
  for (const message of messages) {
    spend(unitsOfMessage)
    const text = textOf(message)
    for (let start = 0; start < text.length && sum <= maxTokens; start += countedLength)
      sum += countTokens(text.slice(start, start + countedLength))
    if (sum > maxTokens) return true
  }
  return false
}

/** Parts that are dropped together, and their texts or messages, whose tokens the drop saves. */
interface Drop {
  readonly dropped: readonly unknown[]
  readonly texts: readonly string[]
  readonly messages: readonly Message[]
}

function* dropsOf({ lore, examples, conversation }: PromptParts, overflow: 'drop-oldest' | undefined): Iterable<Drop> {
  const ordered = dropOrder(lore)
  const isFirst = ({ rules }: Lore) => rules.ignoreOnMaxContext === true
  const others = ordered.filter((each) => !isFirst(each))
  yield* ordered.filter(isFirst).map(withoutLore)
  for (const block of examples.toReversed()) {
    yield { dropped: [block], texts: [], messages: block }
  }
  yield* others.filter(({ entry }) => !entry.constant).map(withoutLore)
  yield* others.filter(({ entry }) => entry.constant).map(withoutLore)
  if (overflow !== 'drop-oldest') return
  for (const turn of turnsOf(conversation).slice(0, -1)) {
    yield { dropped: turn, texts: [], messages: turn }
  }
}

function withoutLore(lore: Lore): Drop {
  return { dropped: [lore], texts: [lore.body], messages: [] }
}

/** Messages that are dropped together: a message, and the results of its tool calls. */
function turnsOf(conversation: readonly Message[]): readonly (readonly Message[])[] {
  const turns: Message[][] = []
  for (const message of conversation) {
    const last = turns.at(-1)
    if (last && isToolResult(message)) last.push(message)
    else turns.push([message])
  }
  return turns
}
