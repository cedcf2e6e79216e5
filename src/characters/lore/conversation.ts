import { type Message, textOf } from '../../openai/completion-request.ts'
import { lowerCaseOf } from '../../text.ts'
import { withoutComments } from '../macros/macros.ts'
import { ScanBudget, ScannedText, TrigramFilter } from './search.ts'

/**
 * When a window (the joined texts of the newest messages) has this many characters, no further message is added to the window. A
 * message with more characters is cut.
 */
const maxWindowLength = 64 * 1024
/** Stands after each message, so that no literal key matches across two messages. */
const border = '\n\u0001'
/** The most windows with filters of their own. Further windows use the filter of the longest window. */
const maxFilters = 8
/** The number of newest messages that are replayed to find earlier matches. */
const maxReplayedMessages = 200
/** The most scan depths for which earlier points are cached. */
const maxReplayedDepths = 8
/** Units of work for one message. */
const unitsOfMessage = 20
/** The most characters of a message in the key of a turn (`turnKeyAt`). They are taken from the end of the message. */
const maxEndLength = 500

/** An earlier point of a conversation: its state after an earlier message of the user. */
export interface EarlierPoint {
  /** The newest messages at this point. */
  readonly window: ScannedText
  /** The number of all messages at this point, and the number of the character's messages. */
  readonly length: number
  readonly characterMessages: number
  /** False if the next message is from the user too, so that the newest message at this point has no reply. */
  readonly isAnswered: boolean
}

/** The conversation that is scanned for lore: the greeting and the request's messages, except system and developer messages. */
export class Conversation {
  readonly messages: readonly Message[]
  /** The number of the character's messages, including the greeting and a reply that the request has begun. */
  readonly characterMessages: number
  readonly budget = new ScanBudget()
  /** The number of messages before the reply. A reply that the request has begun (`begunReply`) does not count. */
  readonly length: number
  readonly #newest: Joined
  readonly #windows = new Map<number, ScannedText>()
  #all: Joined | undefined
  readonly #pointsByDepth = new Map<number, readonly EarlierPoint[]>()

  /** @param deepest the largest scan depth of all books and entries */
  constructor(messages: readonly Message[], deepest: number) {
    this.messages = messages
    this.length = messages.length - (begunReply(messages) ? 1 : 0)
    this.characterMessages = messages.reduce((count, { role }) => count + (role === 'assistant' ? 1 : 0), 0)
    this.#newest = this.#join(deepest, maxWindowLength)
  }

  /** The joined text of the newest `depth` messages, or of fewer messages if these are long. */
  window(depth: number): ScannedText {
    const count = Math.min(depth, this.#newest.textEnds.length - 1)
    const known = this.#windows.get(count)
    if (known) return known
    const window = partOf(this.#newest, 0, count, this.#windows.size < maxFilters ? undefined : this.#newest.filter)
    this.#windows.set(count, window)
    return window
  }

  /**
   * A key that identifies the turn after the first `length` messages: the ends of the last two of these messages. Later requests
   * of the conversation get the same key for this turn.
   */
  turnKeyAt(length: number): string {
    const ends = [length - 2, length - 1].map((index) => this.#written(index).slice(-maxEndLength))
    return ends.join(border)
  }

  /**
   * The earlier points of the conversation, the newest first: one after each user message among the newest `maxReplayedMessages`.
   * The last message before the reply gives no earlier point.
   * @param depth the number of messages in each window
   */
  earlierPoints(depth: number): readonly EarlierPoint[] {
    const known = this.#pointsByDepth.get(depth)
    if (known) return known
    this.#all ??= this.#join(this.messages.length, Number.POSITIVE_INFINITY)
    const { textEnds } = this.#all
    const { length } = this.messages
    const points: EarlierPoint[] = []
    let characterMessages = this.characterMessages
    for (let last = length - 1; last >= Math.max(0, length - maxReplayedMessages); last--) {
      const role = this.messages[last]?.role
      if (role === 'assistant') characterMessages--
      if (role !== 'user' || last > this.length - 2) continue
      // The joined text begins with the newest message.
      const first = length - 1 - last
      const start = textEnds[first] ?? 0
      let end = first
      while (end < first + depth && end < textEnds.length - 1 && (textEnds[end] ?? 0) - start < maxWindowLength) end++
      const window = partOf(this.#all, first, end, this.#all.filter)
      points.push({ window, length: last + 1, characterMessages, isAnswered: this.messages[last + 1]?.role !== 'user' })
      this.budget.spend(unitsOfMessage + end - first)
    }
    if (this.#pointsByDepth.size >= maxReplayedDepths) this.#pointsByDepth.clear()
    this.#pointsByDepth.set(depth, points)
    return points
  }

  /** Joins messages, the newest message first, so that every window is a substring of the joined text. */
  #join(count: number, longest: number): Joined {
    const texts: string[] = []
    const lowers: string[] = []
    const textEnds = [0]
    const lowerEnds = [0]
    let textEnd = 0
    let lowerEnd = 0
    for (let index = this.messages.length - 1; index >= 0 && texts.length < count && textEnd < longest; index--) {
      const text = withoutComments(this.#written(index)) + border
      const lower = lowerCaseOf(text)
      texts.push(text)
      lowers.push(lower)
      textEnd += text.length
      lowerEnd += lower.length
      textEnds.push(textEnd)
      lowerEnds.push(lowerEnd)
      this.budget.spend(unitsOfMessage + (text.length >> 3))
    }
    const lower = lowers.join('')
    return { text: texts.join(''), lower, textEnds, lowerEnds, filter: new TrigramFilter(lower) }
  }

  #written(index: number): string {
    const message = this.messages[index]
    return message ? textOf(message).slice(0, maxWindowLength) : ''
  }
}

/**
 * The reply that a request has begun (a prefill, or "continue" of a chat program): the assistant's message at the end of the
 * request. The prompt keeps this message last, so that the model continues the reply. Undefined if the request does not end with
 * a message of the assistant.
 */
export function begunReply(conversation: readonly Message[]): Message | undefined {
  const last = conversation.at(-1)
  return last?.role === 'assistant' ? last : undefined
}

interface Joined {
  readonly text: string
  readonly lower: string
  /** `textEnds[n]` is the index in `text` at which the newest n messages end. */
  readonly textEnds: readonly number[]
  readonly lowerEnds: readonly number[]
  readonly filter: TrigramFilter
}

/** The text of some of the joined messages. @param first the number of newer messages */
function partOf({ text, lower, textEnds, lowerEnds }: Joined, first: number, end: number, filter?: TrigramFilter) {
  return new ScannedText(
    text.slice(textEnds[first], textEnds[end]),
    lower.slice(lowerEnds[first], lowerEnds[end]),
    filter,
  )
}
