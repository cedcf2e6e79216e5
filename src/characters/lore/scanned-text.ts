import { lowerCaseOf } from '../../text.ts'
import type { LorePattern } from './pattern.ts'
import { placeOf, type ScanBudget } from './scan-budget.ts'
import { TrigramFilter } from './trigram-filter.ts'

/** A key of a lorebook entry, prepared for the search. */
export interface LoreKey {
  /** The key as it is written in the lorebook, trimmed. */
  readonly written: string
  /** The text of a key that is searched for literally, also in lower case (`lowerCaseOf`). Absent for a regular expression. */
  readonly text?: string
  readonly lower?: string
  /** Hashes of trigrams that every text with the key contains (`trigramsOf`). */
  readonly trigrams?: readonly number[]
  /** Whether the key has macros, which are expanded before the search, and whether all of these macros are names. */
  readonly hasMacro?: boolean
  readonly hasNamesOnly?: boolean
  /** A regular expression; null if it is refused, so that it never matches. Absent for a key that is searched for literally. */
  readonly pattern?: LorePattern | null
}

const wordCharacter = /[\p{L}\p{N}\p{M}_]/u
/**
 * Scripts in which words have no spaces between them, or have endings (Korean). The search cannot see where such a word begins or
 * ends.
 */
const scriptsWithoutSpaces =
  /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmr}\p{scx=Mymr}\p{scx=Tibt}]/u

/** The most characters of one part of a text (`scannedTextsOf`). */
const maxTextLength = 128 * 1024
/** Characters that two neighbouring parts share, so that each literal key in the text is complete in at least one part. */
const overlap = 4096
/** Units of work to look up a key, and to check whether one of its occurrences is a whole word. */
const unitsOfLookup = 2
const unitsOfPlace = 8

/** A text in which keys are searched for. Its trigram Bloom filter excludes most keys that do not occur, without a search. */
export class ScannedText {
  readonly text: string
  readonly #lower: string
  readonly #budget: ScanBudget
  readonly #filter: TrigramFilter

  /** @param whole a text that contains this text; this text then uses the filter of `whole` */
  constructor(text: string, budget: ScanBudget, lower = lowerCaseOf(text), whole?: ScannedText) {
    this.text = text
    this.#lower = lower
    this.#budget = budget
    this.#filter = whole ? whole.#filter : new TrigramFilter(lower, budget)
  }

  /** Whether a key that is not a pattern occurs. @param key with its macros expanded */
  has(key: LoreKey, caseSensitive: boolean, wholeWords: boolean): boolean {
    if (this.#budget.unitsLeft <= 0 || this.surelyLacks(key)) return false
    const { text = '', lower = '' } = key
    const place = caseSensitive ? placeOf(text, this.text, this.#budget) : placeOf(lower, this.#lower, this.#budget)
    // As in SillyTavern, a key of several words need not stand between word borders.
    if (place === -1 || !wholeWords || /\s/.test(text)) return place !== -1
    return caseSensitive ? this.#hasWord(this.text, text, place) : this.#hasWord(this.#lower, lower, place)
  }

  /** Whether a pattern matches. */
  matches(pattern: LorePattern | null): boolean {
    const budget = this.#budget
    if (budget.unitsLeft <= 0 || pattern === null || this.text === '') return false
    budget.spend(unitsOfLookup)
    return pattern.search(this.text)
  }

  /**
   * Whether it is certain that a key without macros does not occur. True for most keys that do not occur, and for a refused
   * pattern; false for every other pattern.
   */
  surelyLacks({ lower = '', trigrams = [], pattern }: LoreKey): boolean {
    this.#budget.spend(unitsOfLookup)
    if (pattern !== undefined) return pattern === null
    // A key whose macros expand to nothing is blank, and would occur everywhere.
    if (lower === '') return true
    if (lower.length > this.#lower.length) return true
    return !this.#filter.mayContain(lower, trigrams)
  }

  /** Makes the Bloom filter now. */
  prepare(): void {
    this.#filter.prepare()
  }

  #hasWord(searched: string, word: string, first: number): boolean {
    const opens = scriptsWithoutSpaces.test(String.fromCodePoint(word.codePointAt(0) ?? 32))
    const closes = scriptsWithoutSpaces.test([...word.slice(-2)].at(-1) ?? ' ')
    for (let place = first; place !== -1; place = searched.indexOf(word, place + 1)) {
      this.#budget.spend(unitsOfPlace)
      if (this.#budget.unitsLeft <= 0) return false
      const before = searched.slice(Math.max(0, place - 2), place)
      const after = String.fromCodePoint(searched.codePointAt(place + word.length) ?? 32)
      const isBegun = opens || isBorder([...before].at(-1) ?? ' ')
      if (isBegun && (closes || isBorder(after))) return true
    }
    return false
  }
}

/** Whether a word may begin or end next to this character. */
function isBorder(character: string): boolean {
  return !wordCharacter.test(character) || scriptsWithoutSpaces.test(character)
}

/** Splits a text of any length into parts that overlap. */
export function scannedTextsOf(text: string, budget: ScanBudget): readonly ScannedText[] {
  const parts: ScannedText[] = []
  for (let start = 0; start === 0 || start + overlap < text.length; start += maxTextLength - overlap) {
    const part = text.slice(start, start + maxTextLength)
    budget.spend(part.length >> 3)
    parts.push(new ScannedText(part, budget))
  }
  return parts
}

/** How keys are searched for. */
export interface KeyRules {
  readonly caseSensitive: boolean
  /** Whether a key must stand between word borders. */
  readonly wholeWords: boolean
}

/** The budget of a search for keys, and the function that expands the keys. */
export interface KeySearch {
  readonly budget: ScanBudget
  /** A key with its macros expanded. */
  readonly expand: (key: LoreKey) => LoreKey
}

/** The first key that occurs in one of the texts; undefined if no key occurs. */
export function firstKeyIn(
  keys: readonly LoreKey[],
  texts: readonly ScannedText[],
  { caseSensitive, wholeWords }: KeyRules,
  { budget, expand }: KeySearch,
): LoreKey | undefined {
  for (const key of keys) {
    if (budget.unitsLeft <= 0) return undefined
    const expanded = key.hasMacro === true ? expand(key) : key
    for (const text of texts) {
      const { pattern } = expanded
      const occurs = pattern === undefined ? text.has(expanded, caseSensitive, wholeWords) : text.matches(pattern)
      if (occurs) return key
    }
  }
  return undefined
}
