import { lowerCaseOf } from '../../text.ts'
import { spend } from '../../work/fuel.ts'
import type { DecoratedRules, LoreEntry } from './entry.ts'
import { type LoreKey, trigramMask, trigramShift } from './keys.ts'

/** Units of work that a request may spend on the search for keys: half of all units of a request. */
const maxUnits = 200_000_000

/** A request's budget for the search for keys. When it is spent, the rest of the prompt can still be composed. */
export class ScanBudget {
  /** Units of work that are left. At 0 and below, every search finds nothing. */
  unitsLeft = maxUnits

  /** Takes units from this budget and from that of the request. @throws OutOfFuel */
  spend(units: number): void {
    this.unitsLeft -= units
    spend(units)
  }
}

/** Slots of the filter for each character, and the least and the most slots. All three are powers of two. */
const slotsPerCharacter = 4
const minSlots = 1024
const maxSlots = trigramMask + 1

/**
 * The Bloom filter of a text's trigrams (three characters in a row), with one hash and one byte for each slot. It is made at the
 * first search. With `String.includes` alone, the 82 keys of a small card take ten times as long as with the filter.
 */
export class TrigramFilter {
  readonly #text: string
  #slots: Uint8Array | undefined

  /** @param text in lower case */
  constructor(text: string) {
    this.#text = text
  }

  /** True for every key that occurs in the text, and false for most keys that do not occur. @param trigrams of `LoreKey` */
  mayContain(trigrams: readonly number[], budget: ScanBudget): boolean {
    this.#slots ??= this.#filled(budget)
    const slots = this.#slots
    const mask = slots.length - 1
    for (const trigram of trigrams) if (slots[trigram & mask] === 0) return false
    return true
  }

  #filled(budget: ScanBudget): Uint8Array {
    const text = this.#text
    budget.spend(text.length)
    const wanted = 2 ** (32 - Math.clz32(text.length * slotsPerCharacter))
    const slots = new Uint8Array(Math.min(maxSlots, Math.max(minSlots, wanted)))
    const mask = slots.length - 1
    let hash = 0
    for (let at = 0; at < text.length; at++) {
      hash = ((hash << trigramShift) ^ text.charCodeAt(at)) & trigramMask
      slots[hash & mask] = 1
    }
    return slots
  }
}

/** How keys are searched for. */
export interface KeyRules {
  readonly caseSensitive: boolean
  /** Whether a key must stand between word borders. */
  readonly wholeWords: boolean
}

/** The rules by which the keys of an entry are searched for. Decorators override the fields of the entry. */
export function keyRulesOf(entry: LoreEntry, { wholeWords }: DecoratedRules): KeyRules {
  return wholeWords === undefined ? entry : { caseSensitive: entry.caseSensitive, wholeWords }
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

/** A text in which keys are searched for. */
export class ScannedText {
  readonly #text: string
  readonly #lower: string
  readonly #filter: TrigramFilter

  /** @param filter of this text, or of a text that contains this text */
  constructor(text: string, lower = lowerCaseOf(text), filter = new TrigramFilter(lower)) {
    this.#text = text
    this.#lower = lower
    this.#filter = filter
  }

  /** Whether a key occurs. Finds nothing if the budget is spent. @param key with its macros expanded */
  has(key: LoreKey, rules: KeyRules, budget: ScanBudget): boolean {
    if (key.pattern !== undefined) {
      return key.pattern !== null && budget.unitsLeft > 0 && this.#text !== '' && key.pattern.search(this.#text)
    }
    return this.#filter.mayContain(key.trigrams, budget) && this.#contains(key, rules, budget)
  }

  #contains({ text = '', lower }: LoreKey, { caseSensitive, wholeWords }: KeyRules, budget: ScanBudget): boolean {
    // A key whose macros expand to nothing is blank, and would occur everywhere.
    if (lower === '' || budget.unitsLeft <= 0) return false
    const searched = caseSensitive ? this.#text : this.#lower
    const word = caseSensitive ? text : lower
    // In the worst case, `indexOf` compares the key at each place that resembles the end of the key.
    budget.spend((searched.length * Math.max(3, word.length)) >> 6)
    const place = searched.indexOf(word)
    // As in SillyTavern, a key of several words need not stand between word borders.
    return place === -1 || !wholeWords || /\s/.test(word) ? place !== -1 : hasWord(searched, word, place, budget)
  }
}

/** Whether a word stands between word borders. @param first the first place of the word */
function hasWord(searched: string, word: string, first: number, budget: ScanBudget): boolean {
  const opens = scriptsWithoutSpaces.test(String.fromCodePoint(word.codePointAt(0) ?? 32))
  const closes = scriptsWithoutSpaces.test([...word.slice(-2)].at(-1) ?? ' ')
  for (let place = first; place !== -1; place = searched.indexOf(word, place + 1)) {
    budget.spend(unitsOfPlace)
    if (budget.unitsLeft <= 0) return false
    const before = searched.slice(Math.max(0, place - 2), place)
    const after = String.fromCodePoint(searched.codePointAt(place + word.length) ?? 32)
    const isBegun = opens || isBorder([...before].at(-1) ?? ' ')
    if (isBegun && (closes || isBorder(after))) return true
  }
  return false
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
    parts.push(new ScannedText(part))
  }
  return parts
}

/** A search for the keys of one entry. */
export interface KeySearch {
  readonly texts: readonly ScannedText[]
  readonly rules: KeyRules
  readonly budget: ScanBudget
  /** A key with its macros expanded. */
  readonly expand: (key: LoreKey) => LoreKey
}

/** The first key that occurs in one of the texts; undefined if no key occurs. */
export function firstKeyIn(keys: readonly LoreKey[], search: KeySearch): LoreKey | undefined {
  const { texts, rules, budget, expand } = search
  budget.spend(unitsOfLookup * keys.length * texts.length)
  for (const key of keys) {
    if (budget.unitsLeft <= 0) return undefined
    const expanded = key.hasMacro ? expand(key) : key
    for (const text of texts) if (text.has(expanded, rules, budget)) return key
  }
  return undefined
}

/**
 * Whether the secondary keys and the keys of decorators allow a match.
 * @returns the keys that were found, besides the primary key; undefined if the match is not allowed
 */
export function otherKeysIn(
  entry: LoreEntry,
  rules: DecoratedRules,
  search: KeySearch,
): readonly LoreKey[] | undefined {
  const found: LoreKey[] = []
  for (const keys of rules.additional) {
    const key = firstKeyIn(keys, search)
    if (!key) return undefined
    found.push(key)
  }
  if (rules.excluded.some((keys) => firstKeyIn(keys, search))) return undefined
  const { secondaryKeys, logic, constant } = entry
  if (constant || secondaryKeys.length === 0) return found
  if (logic === 'any' || logic === 'not any') {
    const key = firstKeyIn(secondaryKeys, search)
    if ((key === undefined) === (logic === 'any')) return undefined
    return key ? [...found, key] : found
  }
  const hasAll = secondaryKeys.every((key) => firstKeyIn([key], search))
  return hasAll === (logic === 'all') ? found : undefined
}
