import type { Steps } from '../../work.ts'
import type { LorePattern } from './pattern.ts'
import type { ScanBudget } from './scan-budget.ts'

/** A key of a lorebook entry, prepared for the search. */
export interface LoreKey {
  /** As it is written in the card. */
  readonly written: string
  /** The key as it is searched for, and in lower case. Absent for a regular expression. */
  readonly text?: string
  readonly lower?: string
  /** Hashes of trigrams that a text must contain if the key occurs in it (`trigramsOf`). */
  readonly trigrams?: readonly number[]
  /** Whether the key has macros, which are expanded before the search, and whether all of them are `{{char}}` and `{{user}}`. */
  readonly hasMacro?: boolean
  readonly hasNamesOnly?: boolean
  /** Null for a pattern that the engine refuses: it never matches. */
  readonly pattern?: LorePattern | null
}

/** Bits of the filter for each character of the text; the filter has at least 2 ** 10 bits and at most 2 ** 19 (64 kB). */
const filterBitsPerCharacter = 8
const maxIndexBits = 19
const minIndexBits = 10
/** Searches of a text after which its filter costs less than it saves. */
const searchesBeforeFilter = 4
/** Words of a filter that is a plain array: a typed array has memory of its own, which costs a short text more than its searches. */
const maxPlainWords = 1024
const wordCharacter = /[\p{L}\p{N}\p{M}_]/u
/** Scripts without spaces between words, or with endings on them: the search cannot see where a word ends. */
const scriptsWithoutSpaces =
  /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmr}\p{scx=Mymr}\p{scx=Tibt}]/u

/** Characters of the longest text that is searched at once. */
export const maxTextLength = 128 * 1024
/** Characters that two parts of a longer text share, so that no key is split between them. */
const overlap = 4096
/** Units of work of one lookup of a key, and of one place where a whole word may stand. */
const unitsOfLookup = 2
const unitsOfPlace = 8

/** A text in which keys are searched for; a trigram Bloom filter answers for most keys that do not occur. */
export class ScannedText {
  readonly text: string
  readonly #lower: string
  readonly #budget: ScanBudget
  readonly #whole: ScannedText | undefined
  /** The Bloom filter of the text's trigrams (three characters in a row), with one hash: 32 bits a word. */
  #filter: number[] | Uint32Array | undefined
  #searches = 0
  /** The bits of a hash that give the bit's index in the filter. */
  #indexMask = 0

  /** @param whole a text that this one is a part of; its filter serves both */
  constructor(text: string, budget: ScanBudget, lower = text.toLowerCase(), whole?: ScannedText) {
    this.text = text
    this.#lower = lower
    this.#budget = budget
    this.#whole = whole
  }

  /** Whether a key that is not a pattern occurs. @param key with its macros expanded */
  has(key: LoreKey, caseSensitive: boolean, wholeWords: boolean): boolean {
    if (this.#budget.unitsLeft <= 0 || this.surelyLacks(key)) return false
    const { text = '', lower = '' } = key
    const place = caseSensitive ? this.#placeOf(text, this.text) : this.#placeOf(lower)
    // A key of several words need not stand between word borders, as in SillyTavern.
    if (place === -1 || !wholeWords || /\s/.test(text)) return place !== -1
    return caseSensitive ? this.#hasWord(this.text, text, place) : this.#hasWord(this.#lower, lower, place)
  }

  /** Whether a pattern matches. The search takes steps, since some patterns take a microsecond for each character. */
  *matches(pattern: LorePattern | null): Steps<boolean> {
    const budget = this.#budget
    if (budget.unitsLeft <= 0 || pattern === null || this.text === '') return false
    budget.unitsLeft -= unitsOfLookup
    const steps = pattern.search(this.text)
    for (;;) {
      const { done, value } = steps.next()
      if (done) return value
      budget.unitsLeft -= value
      if (budget.unitsLeft <= 0) return false
      if (budget.isStepOver) yield budget.takeSpentUnits()
    }
  }

  /** Whether a key without macros cannot occur, by the Bloom filter: true for most keys that do not occur. */
  surelyLacks({ lower = '', trigrams = [], pattern }: LoreKey): boolean {
    this.#budget.unitsLeft -= unitsOfLookup
    if (pattern !== undefined) return pattern === null
    if (lower.length > this.#lower.length) return true
    return !(this.#whole ?? this).#mayContain(lower, trigrams)
  }

  /** The index of the first occurrence of a text; -1 for none. */
  #placeOf(text: string, searched = this.#lower): number {
    // `indexOf` compares again at each place that resembles the key's end.
    this.#budget.unitsLeft -= (searched.length * Math.max(3, text.length)) >> 6
    return searched.indexOf(text)
  }

  /** Makes the filter of a text of any length. */
  *prepare(): Steps<void> {
    if (this.#filter) return
    this.#createFilter()
    for (let start = 0; start < this.#lower.length; start += maxTextLength) {
      this.#addTrigrams(start, start + maxTextLength)
      if (this.#budget.isStepOver) yield this.#budget.takeSpentUnits()
    }
  }

  #hasWord(searched: string, word: string, first: number): boolean {
    const opens = scriptsWithoutSpaces.test(String.fromCodePoint(word.codePointAt(0) ?? 32))
    const closes = scriptsWithoutSpaces.test([...word.slice(-2)].at(-1) ?? ' ')
    for (let place = first; place !== -1; place = searched.indexOf(word, place + 1)) {
      this.#budget.unitsLeft -= unitsOfPlace
      if (this.#budget.unitsLeft <= 0) return false
      const before = searched.slice(Math.max(0, place - 2), place)
      const after = String.fromCodePoint(searched.codePointAt(place + word.length) ?? 32)
      const isBegun = opens || isBorder([...before].at(-1) ?? ' ')
      if (isBegun && (closes || isBorder(after))) return true
    }
    return false
  }

  /** False for most keys that do not occur, by the Bloom filter, which is made after a few searches. */
  #mayContain(lower: string, trigrams: readonly number[]): boolean {
    if (this.#filter === undefined) {
      this.#searches += 1
      if (this.#searches <= searchesBeforeFilter) return this.#placeOf(lower) !== -1
      if (this.#budget.filtersLeft <= 0) return true
      this.#createFilter()
      this.#addTrigrams(0, this.#lower.length)
    }
    const filter = this.#filter
    const indexMask = this.#indexMask
    for (const trigram of trigrams) {
      const index = trigram & indexMask
      if (filter && ((filter[index >>> 5] ?? 0) & (1 << (index & 31))) === 0) return false
    }
    return true
  }

  #createFilter(): void {
    const wantedBits = 32 - Math.clz32(this.#lower.length * filterBitsPerCharacter)
    const bits = Math.min(maxIndexBits, Math.max(minIndexBits, wantedBits))
    this.#budget.filtersLeft -= 1
    const words = 2 ** (bits - 5)
    this.#filter = words <= maxPlainWords ? new Array<number>(words).fill(0) : new Uint32Array(words)
    this.#indexMask = 2 ** bits - 1
  }

  /** Adds the trigrams that begin from `start` up to `end`. */
  #addTrigrams(start: number, end: number): void {
    const filter = this.#filter ?? []
    const indexMask = this.#indexMask
    const lower = this.#lower.slice(start, end + 2)
    this.#budget.unitsLeft -= lower.length
    for (let at = 0; at + 2 < lower.length; at++) {
      const index = trigramHash(lower, at) & indexMask
      filter[index >>> 5] = (filter[index >>> 5] ?? 0) | (1 << (index & 31))
    }
  }
}

/** Whether a word may begin or end next to this character. */
function isBorder(character: string): boolean {
  return !wordCharacter.test(character) || scriptsWithoutSpaces.test(character)
}

/** A text of any length as searchable parts that overlap. */
export function* scannedTextsOf(text: string, budget: ScanBudget): Steps<readonly ScannedText[]> {
  const parts: ScannedText[] = []
  for (let start = 0; start === 0 || start + overlap < text.length; start += maxTextLength - overlap) {
    const part = text.slice(start, start + maxTextLength)
    budget.unitsLeft -= part.length >> 3
    parts.push(new ScannedText(part, budget))
    if (budget.isStepOver) yield budget.takeSpentUnits()
  }
  return parts
}

/** The means of a search for keys. */
export interface KeySearch {
  readonly budget: ScanBudget
  /** A key with its macros expanded. */
  readonly expand: (key: LoreKey) => Steps<LoreKey>
}

/** The first key that occurs in one of the texts; undefined for none. */
export function* firstKeyIn(
  keys: readonly LoreKey[],
  texts: readonly ScannedText[],
  { caseSensitive, wholeWords }: { readonly caseSensitive: boolean; readonly wholeWords: boolean },
  { budget, expand }: KeySearch,
): Steps<LoreKey | undefined> {
  // By index: an iterator that lives across yields allocates an object for each iteration.
  for (let k = 0, key = keys[0]; key && budget.unitsLeft > 0; key = keys[++k]) {
    const expanded = key.hasMacro === true ? yield* expand(key) : key
    for (let t = 0, text = texts[0]; text; text = texts[++t]) {
      const { pattern } = expanded
      const occurs =
        pattern === undefined ? text.has(expanded, caseSensitive, wholeWords) : yield* text.matches(pattern)
      if (occurs) return key
      if (budget.isStepOver) yield budget.takeSpentUnits()
    }
  }
  return undefined
}

/** Hashes of up to three trigrams of a key, which every text with the key contains; none for a key under three characters. */
export function trigramsOf(lower: string): readonly number[] {
  const last = lower.length - 3
  if (last < 0) return []
  // The last, first and middle trigram: keys of one book often begin alike (`place 7`, `place 8`).
  return [...new Set([last, 0, (last + 1) >> 1])].map((index) => trigramHash(lower, index))
}

/** A hash of the three characters at an index. Letters of one alphabet differ in their lowest five bits. */
function trigramHash(text: string, index: number): number {
  const third = text.charCodeAt(index + 2)
  return (text.charCodeAt(index) << 10) ^ (text.charCodeAt(index + 1) << 5) ^ third ^ (third >>> 5)
}
