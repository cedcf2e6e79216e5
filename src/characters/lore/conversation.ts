import { type Message, textOf } from '../../openai/completion-request.ts'
import type { Steps } from '../../work.ts'
import { withoutComments } from '../macros/macros.ts'
import { Haystack, ScanWork } from './haystack.ts'

/** Characters that are looked at in one window of messages, from the newest. */
const maxWindowLength = 64 * 1024
/** Stands between messages, so that no key is found across two. */
const border = '\n\u0001'
/** Messages that are looked at for what matched earlier. */
const maxReplayedMessages = 200
/** Windows with a table of their own; the others go by that of the longest. */
const maxWindowFilters = 8
/** Scan depths of which the windows at earlier points are kept. */
const maxReplayedDepths = 8
/** Units of work of one message. */
const unitsOfMessage = 20

/** Characters of a message that tell a turn. */
const maxEndLength = 500

/** An earlier point of a conversation: after a message of the user's. */
export interface Earlier {
  /** The newest messages then. */
  readonly window: Haystack
  /** How many messages there were, and how many of them were the character's. */
  readonly length: number
  readonly saidByCharacter: number
  /** Whether a reply follows; not where the user goes on. */
  readonly isAnswered: boolean
}

/** The greeting and the request's messages but the system's, as lore is looked for in them. */
export class Conversation {
  readonly messages: readonly Message[]
  /** Messages of the character's, the greeting too. */
  readonly saidByCharacter: number
  readonly work = new ScanWork()
  /** Messages before the reply, which the request may have begun. */
  readonly length: number
  readonly #texts: (string | undefined)[]
  readonly #windows = new Map<number, Haystack>()
  readonly #replayed = new Map<number, readonly Earlier[]>()
  #newest: Joined | undefined
  #longest: Haystack | undefined
  #all: (Joined & { readonly whole: Haystack }) | undefined

  constructor(messages: readonly Message[]) {
    this.messages = messages
    this.length = messages.length - (begunReply(messages) ? 1 : 0)
    this.saidByCharacter = messages.reduce((count, { role }) => count + (role === 'assistant' ? 1 : 0), 0)
    this.#texts = new Array<string | undefined>(messages.length)
  }

  /** Joins the newest messages, of which `window` gives parts. @param deepest the most that any entry looks at */
  *prepare(deepest: number): Steps<void> {
    this.#newest = yield* this.#join(Math.min(deepest, this.messages.length), maxWindowLength)
    const { text, lower } = this.#newest
    this.#longest = new Haystack(text, this.work, lower)
    this.#windows.set(this.#newest.textEnds.length - 1, this.#longest)
  }

  /** The newest messages, no more of them than were prepared. */
  window(depth: number): Haystack {
    const { text, lower, textEnds, lowerEnds } = this.#newest ?? nothing
    const count = Math.min(depth, textEnds.length - 1)
    const known = this.#windows.get(count)
    if (known) return known
    const whole = this.#windows.size > maxWindowFilters ? this.#longest : undefined
    const made = new Haystack(text.slice(0, textEnds[count]), this.work, lower.slice(0, lowerEnds[count]), whole)
    this.#windows.set(count, made)
    return made
  }

  /** What the reply to the newest of so many messages is known by again: the end of the two newest. */
  turnAt(length: number): string {
    const ends = [length - 2, length - 1].map((index) => this.#written(index).slice(-maxEndLength))
    return ends.join(border)
  }

  /** The earlier points of the conversation, the newest first: after each of the user's messages but the last. */
  *earlier(depth: number): Steps<readonly Earlier[]> {
    const known = this.#replayed.get(depth)
    if (known) return known
    const { text, lower, textEnds, lowerEnds, whole } = yield* this.#joinAll()
    const { length } = this.messages
    const points: Earlier[] = []
    let saidByCharacter = this.saidByCharacter
    for (let last = length - 1; last >= Math.max(0, length - maxReplayedMessages); last--) {
      const role = this.messages[last]?.role
      if (role === 'assistant') saidByCharacter--
      if (role !== 'user' || last > this.length - 2) continue
      // The newest message is the first of those that are joined.
      const first = length - 1 - last
      const start = textEnds[first] ?? 0
      let end = first
      while (end < first + depth && end < textEnds.length - 1 && (textEnds[end] ?? 0) - start < maxWindowLength) end++
      const part = text.slice(start, textEnds[end])
      const window = new Haystack(part, this.work, lower.slice(lowerEnds[first], lowerEnds[end]), whole)
      points.push({ window, length: last + 1, saidByCharacter, isAnswered: this.messages[last + 1]?.role !== 'user' })
      this.work.left -= unitsOfMessage + end - first
      if (this.work.isDue) yield this.work.owed()
    }
    if (this.#replayed.size >= maxReplayedDepths) this.#replayed.clear()
    this.#replayed.set(depth, points)
    return points
  }

  /** Joins all that any window at an earlier point may have in it. */
  *#joinAll(): Steps<Joined & { readonly whole: Haystack }> {
    if (this.#all) return this.#all
    const joined = yield* this.#join(this.messages.length, Number.POSITIVE_INFINITY)
    const whole = new Haystack(joined.text, this.work, joined.lower)
    yield* whole.prepare()
    this.#all = { ...joined, whole }
    return this.#all
  }

  /** Joins the newest messages, the newest of them first: a window is a part of that. */
  *#join(count: number, longest: number): Steps<Joined> {
    const texts: string[] = []
    const lowers: string[] = []
    const textEnds = [0]
    const lowerEnds = [0]
    let textEnd = 0
    let lowerEnd = 0
    for (let index = this.messages.length - 1; texts.length < count && textEnd < longest; index--) {
      const plain = this.#texts[index] ?? this.#plain(index) ?? (yield* withoutComments(this.#written(index)))
      this.#texts[index] = plain
      const text = `${plain}${border}`
      const lower = `${plain.toLowerCase()}${border}`
      texts.push(text)
      lowers.push(lower)
      textEnd += text.length
      lowerEnd += lower.length
      textEnds.push(textEnd)
      lowerEnds.push(lowerEnd)
      this.work.left -= unitsOfMessage + (text.length >> 3)
      if (this.work.isDue) yield this.work.owed()
    }
    return { text: texts.join(''), lower: lowers.join(''), textEnds, lowerEnds }
  }

  /** A message without any braces; undefined for another. */
  #plain(index: number): string | undefined {
    const written = this.#written(index)
    return written.includes('{{') ? undefined : written
  }

  #written(index: number): string {
    const message = this.messages[index]
    return message ? textOf(message).slice(0, maxWindowLength) : ''
  }
}

/**
 * The reply that a request has begun (a prefill, or "continue" of a chat program): the assistant's message at its end. It
 * stays the last message of the prompt, since the model writes on from there. Undefined where the end is another message.
 */
export function begunReply(conversation: readonly Message[]): Message | undefined {
  const last = conversation.at(-1)
  return last?.role === 'assistant' ? last : undefined
}

interface Joined {
  readonly text: string
  readonly lower: string
  /** Where the newest so many messages end. */
  readonly textEnds: readonly number[]
  readonly lowerEnds: readonly number[]
}

const nothing: Joined = { text: '', lower: '', textEnds: [0], lowerEnds: [0] }
