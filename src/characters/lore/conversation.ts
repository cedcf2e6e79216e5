import { type Message, textOf } from '../../openai/completion-request.ts'
import { withoutComments } from '../macros/macros.ts'
import { Haystack, type ScanWork } from './haystack.ts'

/** Characters that are looked at in one window of messages, from the newest. */
const longestWindow = 64 * 1024
/** Stands between messages, so that no key is found across two. */
const border = '\n\u0001'
/** Messages that are looked at for what matched earlier. */
const mostReplayed = 200

/** The greeting and the request's messages but the system's, as lore is looked for in them. */
export class Conversation {
  readonly messages: readonly Message[]
  /** Messages of the character's, the greeting too. */
  readonly saidByCharacter: number
  readonly work: ScanWork
  readonly #texts: (string | undefined)[]
  readonly #lowers: (string | undefined)[]
  readonly #windows = new Map<number, Haystack>()
  readonly #replayed = new Map<string, Haystack>()
  #joined: Joined | undefined

  constructor(messages: readonly Message[], work: ScanWork) {
    this.messages = messages
    this.work = work
    this.saidByCharacter = messages.reduce((count, { role }) => count + (role === 'assistant' ? 1 : 0), 0)
    this.#texts = new Array<string | undefined>(messages.length)
    this.#lowers = new Array<string | undefined>(messages.length)
  }

  /** The newest messages. @param deepest the most messages that any entry of the request looks at */
  window(depth: number, deepest: number): Haystack {
    const count = Math.min(depth, this.messages.length)
    const known = this.#windows.get(count)
    if (known) return known
    this.#joined ??= this.#join(Math.min(deepest, this.messages.length))
    const { text, lower, textEnds, lowerEnds } = this.#joined
    const at = Math.min(count, textEnds.length - 1)
    const made = new Haystack(text.slice(0, textEnds[at]), this.work, lower.slice(0, lowerEnds[at]))
    this.#windows.set(count, made)
    return made
  }

  /** The windows at earlier points of the conversation: after each of the user's messages but the last. */
  *earlier(depth: number): Iterable<Haystack> {
    const oldest = Math.max(0, this.messages.length - mostReplayed)
    for (let last = this.messages.length - 2; last >= oldest; last--) {
      if (this.messages[last]?.role !== 'user') continue
      const count = Math.min(depth, last + 1)
      const key = `${last}/${count}`
      let window = this.#replayed.get(key)
      if (!window) {
        const { text, lower } = this.#join(count, last)
        window = new Haystack(text, this.work, lower)
        // Kept only where few of them are long: a card must not make the service hold its conversation many times.
        if (text.length * this.#replayed.size < longestWindow * 64) this.#replayed.set(key, window)
      }
      yield window
    }
  }

  /** Joins the newest messages up to one, the newest of them first: a window is a beginning of that. */
  #join(count: number, last = this.messages.length - 1): Joined {
    const texts: string[] = []
    const lowers: string[] = []
    const textEnds = [0]
    const lowerEnds = [0]
    let textEnd = 0
    let lowerEnd = 0
    for (let index = last; index > last - count && textEnd < longestWindow; index--) {
      const text = `${this.#text(index)}${border}`
      const lower = `${this.#lower(index)}${border}`
      texts.push(text)
      lowers.push(lower)
      textEnd += text.length
      lowerEnd += lower.length
      textEnds.push(textEnd)
      lowerEnds.push(lowerEnd)
    }
    this.work.left -= textEnd * 2
    return { text: texts.join(''), lower: lowers.join(''), textEnds, lowerEnds }
  }

  #text(index: number): string {
    const message = this.messages[index]
    const known = this.#texts[index]
    if (known !== undefined) return known
    const made = message ? withoutComments(textOf(message).slice(0, longestWindow)) : ''
    this.#texts[index] = made
    return made
  }

  #lower(index: number): string {
    const known = this.#lowers[index]
    if (known !== undefined) return known
    const made = this.#text(index).toLowerCase()
    this.#lowers[index] = made
    return made
  }
}

interface Joined {
  readonly text: string
  readonly lower: string
  /** Where the newest so many messages end. */
  readonly textEnds: readonly number[]
  readonly lowerEnds: readonly number[]
}
