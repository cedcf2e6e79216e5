import { ApiError } from '../../errors.ts'
import { type Message, textOf } from '../../openai/completion-request.ts'
import { textsOf, tokensBesideTexts, tokensPerReply } from '../../openai/messages.ts'
import type { Steps } from '../../work.ts'
import { type CompositionRequest, CountNeeded } from './composition.ts'
import { dropOrder, type Lore } from './found-lore.ts'
import { isToolResult } from './injections.ts'
import type { ExampleBlock } from './segments.ts'

/** What of a prompt may give way. */
export interface Material {
  readonly lore: readonly Lore[]
  readonly examples: readonly ExampleBlock[]
  /** The greeting and the request's messages but its leading system messages. */
  readonly conversation: readonly Message[]
}

/** What a prompt must fit into. */
export interface Context extends Pick<CompositionRequest, 'replyTokens' | 'overflow' | 'countSteps' | 'texts'> {
  /** Tokens that the model takes, the reply included. */
  readonly contextWindow: number
  /** Makes the messages of what is kept. */
  readonly assemble: (material: Material) => Steps<readonly Message[]>
}

/**
 * Takes away what does not fit the context: lore that says so itself, examples from the last, the other lore, and the
 * oldest messages only for a model that is set so. What the character is, is never cut.
 * @throws ApiError 400 `context_length_exceeded` when what must stay does not fit
 * @throws CountNeeded when tokens must be counted and there is no counter
 */
export function* fitted(
  material: Material,
  { contextWindow, replyTokens = 0, overflow, countSteps, assemble, texts }: Context,
): Steps<Material> {
  const tooLong = (tokens: string) => contextExceeded(tokens, replyTokens, contextWindow, texts)
  const room = contextWindow - replyTokens
  const whole = yield* assemble(material)
  // A token is at least a byte, so what is short enough need not be counted.
  if ((yield* tokensIn(whole, bytesOf)) <= room) return material
  if (!countSteps) throw new CountNeeded()
  // A huge conversation that fits by no means is counted no further than that: megabytes would take seconds.
  if (
    overflow === undefined &&
    isHuge(material.conversation) &&
    (yield* exceeds(material.conversation, room, countSteps))
  ) {
    throw tooLong(`more than ${Math.max(0, room)}`)
  }
  const total = yield* tokensIn(whole, countSteps)
  if (total <= room) return material
  const fitting = yield* reduced(material, total, room, steps(material, overflow), {
    countSteps,
    countAll: function* (rest) {
      return yield* tokensIn(yield* assemble(rest), countSteps)
    },
  })
  if (typeof fitting === 'number') throw tooLong(String(fitting))
  return fitting
}

type CountSteps = (text: string) => Steps<number>

function* bytesOf(text: string): Steps<number> {
  yield text.length >> 4
  return Buffer.byteLength(text)
}

/** Units of work of one message, beside counting its texts. */
const unitsOfMessage = 15

/** Tokens of a conversation. */
function* tokensIn(messages: readonly Message[], countSteps: CountSteps): Steps<number> {
  let sum = tokensPerReply
  for (const message of messages) sum += yield* tokensOf(message, countSteps)
  return sum
}

/** Tokens of one message. */
function* tokensOf(message: Message, countSteps: CountSteps): Steps<number> {
  yield unitsOfMessage
  let sum = tokensBesideTexts(message)
  for (const text of textsOf(message)) sum += yield* countSteps(text)
  return sum
}

interface Counting {
  readonly countSteps: CountSteps
  /** Tokens of the whole prompt, exactly. */
  readonly countAll: (material: Material) => Steps<number>
}

/** Exact counts that may fail one after the other; after so many of them steps are taken by twos, fours, eights. */
const maxFailedCounts = 8

/**
 * Takes step after step until the rest fits.
 * @param total tokens of the whole
 * @returns what fits, or the tokens of what must stay and does not
 */
function* reduced(
  material: Material,
  total: number,
  room: number,
  steps: Iterable<Step>,
  { countSteps, countAll }: Counting,
): Steps<Material | number> {
  let left = total
  const gone = new Set<unknown>()
  let failed = 0
  let waits = 0
  for (const { goes, texts, messages } of steps) {
    for (const each of goes) gone.add(each)
    for (const text of texts) left -= yield* countSteps(text)
    for (const message of messages) left -= yield* tokensOf(message, countSteps)
    if (left > room || --waits > 0) continue
    // Where texts join, their tokens may: only the whole is counted exactly.
    const fitting = yield* without(gone, material)
    left = yield* countAll(fitting)
    if (left <= room) return fitting
    failed += 1
    // Texts can be made so that no estimate is right; the whole is not counted once for each of them.
    waits = failed > maxFailedCounts ? 2 ** (failed - maxFailedCounts) : 0
  }
  const rest = yield* without(gone, material)
  const least = yield* countAll(rest)
  return least <= room ? rest : least
}

function* without(gone: ReadonlySet<unknown>, { lore, examples, conversation }: Material): Steps<Material> {
  yield (lore.length + examples.length + conversation.length) * 2
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
  // What a request says of its user is never cut either.
  const brought = texts?.persona !== undefined || texts?.authorNote ? ", or a shorter persona or author's note" : ''
  return new ApiError(
    400,
    'context_length_exceeded',
    `The prompt has ${tokens} tokens and ${replyTokens} are for the reply, but the model takes ${contextWindow} in all. Send fewer or shorter messages${brought}.`,
    { param: 'messages' },
  )
}

/** Characters that are counted between two looks at the sum. */
const piece = 64 * 1024
const huge = 512 * 1024

function isHuge(messages: readonly Message[]): boolean {
  return messages.reduce((sum, message) => sum + textOf(message).length, 0) > huge
}

/** Tells whether messages have more tokens than this. */
function* exceeds(messages: readonly Message[], most: number, countSteps: CountSteps): Steps<boolean> {
  let sum = 0
  for (const message of messages) {
    yield unitsOfMessage
    const text = textOf(message)
    for (let start = 0; start < text.length && sum <= most; start += piece)
      sum += yield* countSteps(text.slice(start, start + piece))
    if (sum > most) return true
  }
  return false
}

/** What goes next, and what that saves. */
interface Step {
  readonly goes: readonly unknown[]
  readonly texts: readonly string[]
  readonly messages: readonly Message[]
}

function* steps({ lore, examples, conversation }: Material, overflow: 'drop-oldest' | undefined): Iterable<Step> {
  const ordered = dropOrder(lore)
  const isFirst = ({ rules }: Lore) => rules.ignoreOnMaxContext === true
  const others = ordered.filter((each) => !isFirst(each))
  yield* ordered.filter(isFirst).map(withoutLore)
  for (const block of examples.toReversed()) {
    yield { goes: [block], texts: [], messages: block }
  }
  yield* others.filter(({ entry }) => !entry.constant).map(withoutLore)
  yield* others.filter(({ entry }) => entry.constant).map(withoutLore)
  if (overflow !== 'drop-oldest') return
  for (const turn of turnsOf(conversation).slice(0, -1)) {
    yield { goes: turn, texts: [], messages: turn }
  }
}

function withoutLore(lore: Lore): Step {
  return { goes: [lore], texts: [lore.body], messages: [] }
}

/** Messages that can only go together: one, and the results of the tools that it calls. */
function turnsOf(conversation: readonly Message[]): readonly (readonly Message[])[] {
  const turns: Message[][] = []
  for (const message of conversation) {
    const last = turns.at(-1)
    if (last && isToolResult(message)) last.push(message)
    else turns.push([message])
  }
  return turns
}
