import type { Steps } from '../../work.ts'
import type { LorePattern } from './pattern.ts'

/** A key of a lorebook entry, ready to be looked for. */
export interface LoreKey {
  /** As it is written in the card. */
  readonly written: string
  /** What is looked for: as it is, and in lower case. Absent for a regular expression. */
  readonly text?: string
  readonly lower?: string
  /** What a text must have for the key to occur in it, as `marksOf` gives it. */
  readonly marks?: readonly number[]
  /** Whether macros in it are to be expanded first, and whether these are the names of the two and nothing else. */
  readonly hasMacro?: boolean
  readonly hasNamesOnly?: boolean
  /** Null for one that the engine refuses, which never matches. */
  readonly pattern?: LorePattern | null
}

/** Units of work that a request may spend on looking for keys: some 2 s, half of all that it may cause. */
const maxUnits = 200_000_000
/** Tables of triples that a request may have in memory, of at most 64 kB each. */
const maxFilters = 64
/** Units after which a step ends. */
const unitsOfStep = 2000

/** What a request has left for looking for keys, so that no card can hold up the service. */
export class ScanWork {
  /** Units of work; what is looked for when they are spent is not found. */
  left = maxUnits
  /** Tables that may still be made. */
  tables = maxFilters
  #told = maxUnits

  /** Whether so much was spent since `owed` that the step is to end. */
  get isDue(): boolean {
    return this.#told - this.left >= unitsOfStep
  }

  /** The units that were spent since this was last asked. */
  owed(): number {
    const owed = this.#told - this.left
    this.#told = this.left
    return owed
  }
}

/** Places of the table for each character of the text, and the bits of their number: 64 kB at most. */
const placesPerCharacter = 8
const maxIndexBits = 19
const minIndexBits = 10
/** Words of a table that is a plain array: a typed one has memory of its own, which costs a short text more than its searches. */
const shortTable = 1024
const wordCharacter = /[\p{L}\p{N}\p{M}_]/u
/** Scripts that put no blanks between words, or that add endings to them: a word has no borders there that can be seen. */
const borderless =
  /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmr}\p{scx=Mymr}\p{scx=Tibt}]/u

/** Characters of the longest text that is looked through at once. */
export const maxTextLength = 128 * 1024
/** Characters that two parts of a longer text share, so that no key is cut in two. */
const overlap = 4096
/** Units of a look at a key, and of a place where a whole word may be. */
const unitsOfLook = 2
const unitsOfPlace = 8

/** A text in which keys are looked for. */
export class Haystack {
  readonly text: string
  readonly #lower: string
  readonly #work: ScanWork
  readonly #whole: Haystack | undefined
  /** Which triples of characters the text has, by their hash: a bit for each place. */
  #table: Uint32Array | undefined
  /** The bits of a hash that are a place in the table. */
  #places = 0

  /** @param whole a text that this one is part of, whose table serves for both */
  constructor(text: string, work: ScanWork, lower = text.toLowerCase(), whole?: Haystack) {
    this.text = text
    this.#lower = lower
    this.#work = work
    this.#whole = whole
  }

  /** Tells whether a key that is no pattern occurs. @param key its macros expanded */
  has(key: LoreKey, caseSensitive: boolean, wholeWords: boolean): boolean {
    if (this.#work.left <= 0 || this.lacks(key)) return false
    const { text = '', lower = '' } = key
    const place = caseSensitive ? this.#placeOf(text, this.text) : this.#placeOf(lower)
    // Several words are looked for as they stand, as SillyTavern does.
    if (place === -1 || !wholeWords || /\s/.test(text)) return place !== -1
    return caseSensitive ? this.#hasWord(this.text, text, place) : this.#hasWord(this.#lower, lower, place)
  }

  /** Tells whether a pattern matches, in steps: some take a microsecond for each letter. */
  *matches(pattern: LorePattern | null): Steps<boolean> {
    const work = this.#work
    if (work.left <= 0 || pattern === null || this.text === '') return false
    work.left -= unitsOfLook
    const steps = pattern.search(this.text)
    for (;;) {
      const { done, value } = steps.next()
      if (done) return value
      work.left -= value
      if (work.left <= 0) return false
      if (work.isDue) yield work.owed()
    }
  }

  /** Whether a key without macros is sure not to occur: true for most that do not, at a glance. */
  lacks({ lower = '', marks = [], pattern }: LoreKey): boolean {
    this.#work.left -= unitsOfLook
    if (pattern !== undefined) return pattern === null
    if (lower.length > this.#lower.length) return true
    return !(this.#whole ?? this).#mayHave(marks)
  }

  /** Where a key's text first stands. */
  #placeOf(text: string, haystack = this.#lower): number {
    // A search looks again and again at what is like the key's end.
    this.#work.left -= (haystack.length * Math.max(3, text.length)) >> 6
    return haystack.indexOf(text)
  }

  /** Makes the table of a text of whatever length. */
  *prepare(): Steps<void> {
    if (this.#table) return
    this.#beginTable()
    for (let start = 0; start < this.#lower.length; start += maxTextLength) {
      this.#addToTable(start, start + maxTextLength)
      if (this.#work.isDue) yield this.#work.owed()
    }
  }

  #hasWord(haystack: string, word: string, first: number): boolean {
    const opens = borderless.test(String.fromCodePoint(word.codePointAt(0) ?? 32))
    const closes = borderless.test([...word.slice(-2)].at(-1) ?? ' ')
    for (let place = first; place !== -1; place = haystack.indexOf(word, place + 1)) {
      this.#work.left -= unitsOfPlace
      if (this.#work.left <= 0) return false
      const before = haystack.slice(Math.max(0, place - 2), place)
      const after = String.fromCodePoint(haystack.codePointAt(place + word.length) ?? 32)
      const isBegun = opens || isBorder([...before].at(-1) ?? ' ')
      if (isBegun && (closes || isBorder(after))) return true
    }
    return false
  }

  /** False for most keys that do not occur. */
  #mayHave(marks: readonly number[]): boolean {
    if (this.#table === undefined) {
      if (this.#work.tables <= 0) return true
      this.#beginTable()
      this.#addToTable(0, this.#lower.length)
    }
    const table = this.#table
    const places = this.#places
    for (const mark of marks) {
      const place = mark & places
      if (table && ((table[place >>> 5] ?? 0) & (1 << (place & 31))) === 0) return false
    }
    return true
  }

  #beginTable(): void {
    const bits = Math.min(
      maxIndexBits,
      Math.max(minIndexBits, 32 - Math.clz32(this.#lower.length * placesPerCharacter)),
    )
    this.#work.tables -= 1
    this.#table = new Uint32Array(2 ** (bits - 5))
    this.#places = 2 ** bits - 1
  }

  /** Adds the triples that begin from one place to another. */
  #addToTable(start: number, end: number): void {
    const table = this.#table ?? new Uint32Array()
    const places = this.#places
    const lower = this.#lower.slice(start, end + 2)
    this.#work.left -= lower.length
    for (let at = 0; at + 2 < lower.length; at++) {
      const place = tripleHash(lower, at) & places
      table[place >>> 5] = (table[place >>> 5] ?? 0) | (1 << (place & 31))
    }
  }
}

/** Whether a word may begin or end beside this character. */
function isBorder(character: string): boolean {
  return !wordCharacter.test(character) || borderless.test(character)
}

/** A text of whatever length as texts in which keys are looked for. */
export function* haystacksOf(text: string, work: ScanWork): Steps<readonly Haystack[]> {
  const haystacks: Haystack[] = []
  for (let start = 0; start === 0 || start + overlap < text.length; start += maxTextLength - overlap) {
    const part = text.slice(start, start + maxTextLength)
    work.left -= part.length >> 3
    haystacks.push(new Haystack(part, work))
    if (work.isDue) yield work.owed()
  }
  return haystacks
}

/** How keys are looked for. */
export interface KeySearch {
  readonly work: ScanWork
  /** A key with its macros expanded. */
  readonly expand: (key: LoreKey) => Steps<LoreKey>
}

/** The first of the keys that occurs in one of the texts. */
export function* firstKeyIn(
  keys: readonly LoreKey[],
  texts: readonly Haystack[],
  { caseSensitive, wholeWords }: { readonly caseSensitive: boolean; readonly wholeWords: boolean },
  { work, expand }: KeySearch,
): Steps<LoreKey | undefined> {
  // By their places: an iterator that lives across steps makes an object for each turn.
  for (let k = 0, key = keys[0]; key && work.left > 0; key = keys[++k]) {
    const expanded = key.hasMacro === true ? yield* expand(key) : key
    for (let t = 0, text = texts[0]; text; text = texts[++t]) {
      const { pattern } = expanded
      const occurs =
        pattern === undefined ? text.has(expanded, caseSensitive, wholeWords) : yield* text.matches(pattern)
      if (occurs) return key
      if (work.isDue) yield work.owed()
    }
  }
  return undefined
}

/** Which triples of characters a text must have for this key to occur in it, by their hash; none for a short key. */
export function marksOf(lower: string): readonly number[] {
  const last = lower.length - 3
  if (last < 0) return []
  // Keys of one book often begin alike (`place 7`, `place 8`), so that their ends and middles say more.
  return [...new Set([last, 0, (last + 1) >> 1])].map((place) => tripleHash(lower, place))
}

/** A number for the three characters at a place. Letters of one alphabet differ in their lowest five bits. */
function tripleHash(text: string, place: number): number {
  const third = text.charCodeAt(place + 2)
  return (text.charCodeAt(place) << 10) ^ (text.charCodeAt(place + 1) << 5) ^ third ^ (third >>> 5)
}
