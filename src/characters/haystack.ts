import type { LoreKey } from './lore-keys.ts'

/** What a request may spend on looking for keys: characters looked at, so that no card can hold up the service. */
export interface ScanWork {
  left: number
}

/** Some 100 ms of the slowest search; a thousand entries over a long conversation take a hundredth of it. */
export const mostWork = 500_000_000

/** Searches after which a table of the text's beginnings of words costs less than it saves. */
const searchesBeforeTable = 16
/** Places of the table for each character of the text, and the most bits of one: half a megabyte. */
const placesPerCharacter = 8
const mostBits = 19
const leastBits = 10
const wordCharacter = /[\p{L}\p{N}\p{M}_]/u

/** A text in which keys are looked for. */
export class Haystack {
  readonly text: string
  readonly #lower: string
  readonly #work: ScanWork
  #searches = 0
  /** Which pairs and triples of characters the text has, by their hash. */
  #table: Uint8Array | undefined
  /** Bits of a hash that go unused in a table of this size. */
  #unused = 0

  constructor(text: string, work: ScanWork, lower = text.toLowerCase()) {
    this.text = text
    this.#lower = lower
    this.#work = work
  }

  /** Tells whether the key occurs. @param key its macros expanded */
  has(key: LoreKey, caseSensitive: boolean, wholeWords: boolean): boolean {
    if (this.#work.left <= 0) return false
    if (key.pattern !== undefined) {
      if (key.pattern === null || this.text === '') return false
      this.#work.left -= this.text.length * Math.max(4, key.pattern.programSize() >> 2)
      return key.pattern.test(this.text)
    }
    const { text = '', lower = '' } = key
    this.#work.left -= 8
    if (lower.length > this.#lower.length || !this.#mayHave(lower)) return false
    this.#work.left -= this.#lower.length >> 2
    const place = caseSensitive ? this.text.indexOf(text) : this.#lower.indexOf(lower)
    if (place === -1 || !wholeWords) return place !== -1
    return caseSensitive ? this.#hasWord(this.text, text, place) : this.#hasWord(this.#lower, lower, place)
  }

  #hasWord(haystack: string, word: string, first: number): boolean {
    for (let place = first; place !== -1; place = haystack.indexOf(word, place + 1)) {
      this.#work.left -= 8
      if (this.#work.left <= 0) return false
      const before = haystack.slice(Math.max(0, place - 2), place)
      const after = String.fromCodePoint(haystack.codePointAt(place + word.length) ?? 32)
      if (!wordCharacter.test([...before].at(-1) ?? ' ') && !wordCharacter.test(after)) return true
    }
    return false
  }

  /** False for most keys that do not occur, at a glance. */
  #mayHave(lower: string): boolean {
    if (this.#table === undefined) {
      this.#searches += 1
      if (this.#searches <= searchesBeforeTable) return true
      this.#table = this.#makeTable()
    }
    const last = lower.length - 1
    if (last === 0) return true
    if (last === 1) return this.#table[pairHash(lower.charCodeAt(0), lower.charCodeAt(1)) >>> this.#unused] === 1
    // Keys of one book often begin alike (`place 7`, `place 8`), so that their ends and middles say more.
    return this.#hasTriple(lower, last - 2) && this.#hasTriple(lower, 0) && this.#hasTriple(lower, (last - 1) >> 1)
  }

  #hasTriple(lower: string, at: number): boolean {
    const hash = tripleHash(lower.charCodeAt(at), lower.charCodeAt(at + 1), lower.charCodeAt(at + 2))
    return this.#table?.[hash >>> this.#unused] === 1
  }

  #makeTable(): Uint8Array {
    const text = this.#lower
    const bits = Math.min(mostBits, Math.max(leastBits, 32 - Math.clz32(text.length * placesPerCharacter)))
    const table = new Uint8Array(2 ** bits)
    const unused = 32 - bits
    this.#unused = unused
    this.#work.left -= text.length * 4
    let first = 0
    let second = text.charCodeAt(0)
    for (let place = 1; place < text.length; place++) {
      const third = text.charCodeAt(place)
      table[pairHash(second, third) >>> unused] = 1
      table[tripleHash(first, second, third) >>> unused] = 1
      first = second
      second = third
    }
    return table
  }
}

function pairHash(first: number, second: number): number {
  return (Math.imul(first, 0x9e3779b1) ^ Math.imul(second, 0x85ebca6b)) >>> 0
}

function tripleHash(first: number, second: number, third: number): number {
  return (Math.imul(first, 0x27d4eb2f) ^ Math.imul(second, 0x165667b1) ^ Math.imul(third, 0xc2b2ae35)) >>> 0
}
