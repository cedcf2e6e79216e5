import type { RE2JS } from 're2js'

/** A key of a lorebook entry, ready to be looked for. */
export interface LoreKey {
  /** As it is written in the card. */
  readonly written: string
  /** What is looked for: as it is, and in lower case. Absent for a regular expression. */
  readonly text?: string
  readonly lower?: string
  /** What a text must have for the key to occur in it, as `marksOf` gives it. */
  readonly marks?: readonly number[]
  /** Whether macros in it are to be expanded first. */
  readonly hasMacro?: boolean
  /** Null for one that the engine refuses, which never matches. */
  readonly pattern?: RE2JS | null
}

/** What a request may spend on looking for keys: characters looked at, so that no card can hold up the service. */
export interface ScanWork {
  left: number
}

/** Some 100 ms of the slowest search; a thousand entries over a long conversation take a hundredth of it. */
export const mostWork = 500_000_000

/** Searches after which a table of what the text is made of costs less than it saves. */
const searchesBeforeTable = 4
/** Places of the table for each character of the text, and the bits of their number: 64 kB at most. */
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
  /** Which triples of characters the text has, by their hash: a bit for each place. */
  #table: Uint32Array | undefined
  /** The bits of a hash that are a place in the table. */
  #places = 0

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
    const { text = '', lower = '', marks = [] } = key
    this.#work.left -= 8
    if (lower.length > this.#lower.length || !this.#mayHave(marks)) return false
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
  #mayHave(marks: readonly number[]): boolean {
    if (this.#table === undefined) {
      this.#searches += 1
      if (this.#searches <= searchesBeforeTable) return true
      this.#table = this.#makeTable()
    }
    const places = this.#places
    for (const mark of marks) {
      const place = mark & places
      if (((this.#table[place >>> 5] ?? 0) & (1 << (place & 31))) === 0) return false
    }
    return true
  }

  #makeTable(): Uint32Array {
    const text = this.#lower
    const bits = Math.min(mostBits, Math.max(leastBits, 32 - Math.clz32(text.length * placesPerCharacter)))
    const table = new Uint32Array(2 ** (bits - 5))
    const places = 2 ** bits - 1
    this.#places = places
    this.#work.left -= text.length * 4
    for (const hash of tripleHashes(text)) {
      const place = hash & places
      table[place >>> 5] = (table[place >>> 5] ?? 0) | (1 << (place & 31))
    }
    return table
  }
}

/** The first of the keys that occurs in one of the texts. @param expand gives a key with its macros expanded */
export function firstKeyIn(
  keys: readonly LoreKey[],
  texts: readonly Haystack[],
  { caseSensitive, wholeWords }: { readonly caseSensitive: boolean; readonly wholeWords: boolean },
  expand: (key: LoreKey) => LoreKey,
): LoreKey | undefined {
  for (const key of keys) {
    const expanded = key.hasMacro === true ? expand(key) : key
    for (const text of texts) if (text.has(expanded, caseSensitive, wholeWords)) return key
  }
  return undefined
}

/** Which triples of characters a text must have for this key to occur in it, by their hash; none for a short key. */
export function marksOf(lower: string): readonly number[] {
  const hashes = tripleHashes(lower)
  const last = hashes.length - 1
  // Keys of one book often begin alike (`place 7`, `place 8`), so that their ends and middles say more.
  const places = new Set([last, 0, (last + 1) >> 1])
  return [...places].flatMap((place) => hashes[place] ?? [])
}

/** A number for each three characters that follow one another. Letters of one alphabet differ in their lowest five bits. */
function tripleHashes(text: string): Int32Array {
  const hashes = new Int32Array(Math.max(0, text.length - 2))
  let first = text.charCodeAt(0)
  let second = text.charCodeAt(1)
  for (let place = 0; place < hashes.length; place++) {
    const third = text.charCodeAt(place + 2)
    hashes[place] = (first << 10) ^ (second << 5) ^ third ^ (third >>> 5)
    first = second
    second = third
  }
  return hashes
}
