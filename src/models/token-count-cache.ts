import { hash } from 'node:crypto'
import type { Message } from '../openai/completion-request.ts'
import { copyOf } from '../text.ts'
import { spend } from '../work/fuel.ts'

/** Shorter texts are not cached, because counting their tokens is faster than a lookup. */
const minCachedLength = 256
const maxCachedTexts = 16384
const maxCachedWords = 16384
const maxCachedMessages = 16384
/** Longer words are not cached: they are rarely repeated, and would take much memory. */
const maxCachedWordLength = 128

/** Units of work of a cached text or message. */
export const unitsOfText = 30

/**
 * Caches the numbers of tokens of words, texts and messages. Without the counts of messages, a prompt receipt would cost 310 %
 * more CPU time; without the counts of texts, counting 20 messages of prose would cost over 1,000 % more (docs/performance.md).
 */
export class TokenCountCache {
  readonly #words = new Map<string, number>()
  /** The keys are digests, so that no conversation stays in memory. */
  readonly #texts = new Map<string, number>()
  /** The keys are message objects. The messages of a card are the same frozen objects in each request with this card. */
  #messages = new WeakMap<Message, number>()
  #messageCount = 0

  /** The number of tokens of a word; undefined for a word that is not cached. */
  ofWord(word: string): number | undefined {
    return this.#words.get(word)
  }

  /** Caches the number of tokens of a word, and returns it. */
  setWord(word: string, count: number): number {
    if (word.length > maxCachedWordLength) return count
    return remember(this.#words, maxCachedWords, copyOf(word), count)
  }

  /** The number of tokens of a text. @param count counts the tokens of a text that is not cached */
  ofText(text: string, count: (text: string) => number): number {
    const digest = digestOf(text)
    if (digest === undefined) return count(text)
    const known = this.#texts.get(digest)
    if (known === undefined) return remember(this.#texts, maxCachedTexts, digest, count(text))
    spend(unitsOfText + (text.length >> 3))
    return known
  }

  /** The number of tokens of a message; undefined for a message that is not cached. */
  ofMessage(message: Message): number | undefined {
    return this.#messages.get(message)
  }

  /** Caches the number of tokens of a frozen message, and returns it. No other message is seen again: each request has its own. */
  setMessage(message: Message, count: number): number {
    if (!Object.isFrozen(message)) return count
    // A full cache is replaced: when a map with a million keys grows, it blocks the event loop for half a second.
    if (this.#messageCount === maxCachedMessages) {
      this.#messages = new WeakMap()
      this.#messageCount = 0
    }
    this.#messageCount++
    this.#messages.set(message, count)
    return count
  }
}

/** The cache key of a text; undefined for a text that is not cached. */
function digestOf(text: string): string | undefined {
  if (text.length < minCachedLength) return undefined
  return hash('sha256', text, 'base64')
}

/** Caches a count. A full cache is cleared first. */
function remember(counts: Map<string, number>, limit: number, key: string, count: number): number {
  if (counts.size >= limit) counts.clear()
  counts.set(key, count)
  return count
}
