import { type Message, textOf } from './completion-request.ts'

/** The most characters of the frozen messages of one conversation that are cached. */
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
 * Caches a value that is made from the frozen messages at the beginning of a conversation. The messages that come from a card are
 * frozen, and all requests of one user with this card begin with the same frozen messages. They are the largest part of a prompt:
 * without this cache, a completion takes 4.4 % more CPU time (docs/performance.md).
 */
export class FrozenMessagesCache<T> {
  readonly #make: (messages: readonly Message[]) => T
  /** The frozen beginning of the last conversation, by its first message. */
  #kept = new WeakMap<Message, FrozenMessages<T>>()
  /** The characters that were added to `#kept`, including those that were replaced later. */
  #length = 0

  constructor(make: (messages: readonly Message[]) => T) {
    this.#make = make
  }

  /**
   * The frozen messages at the beginning, and their value. Undefined if the first message is not frozen, or if the frozen messages
   * are too long to be kept: their value would be made for each request, and in one step.
   */
  of(messages: readonly Message[]): FrozenMessages<T> | undefined {
    const [first] = messages
    if (!first || !Object.isFrozen(first)) return undefined
    const kept = this.#kept.get(first)
    if (kept && isBeginning(kept.messages, messages)) return kept
    const end = messages.findIndex((message) => !Object.isFrozen(message))
    const frozen = end === -1 ? [...messages] : messages.slice(0, end)
    const length = frozen.reduce((sum, message) => sum + textOf(message).length, 0)
    if (length > maxKeptLength) return undefined
    const beginning = { messages: frozen, made: this.#make(frozen) }
    if (this.#length + length > maxTotalLength) {
      this.#kept = new WeakMap()
      this.#length = 0
    }
    this.#length += length
    this.#kept.set(first, beginning)
    return beginning
  }
}

/** Whether `known` has all frozen messages that a conversation begins with, and no other message, in the same order. */
function isBeginning(known: readonly Message[], messages: readonly Message[]): boolean {
  // A loop with an index is faster than an iterator, and each prompt may compare hundreds of messages.
  for (let index = 0; index < known.length; index++) if (known[index] !== messages[index]) return false
  const next = messages[known.length]
  return next === undefined || !Object.isFrozen(next)
}
