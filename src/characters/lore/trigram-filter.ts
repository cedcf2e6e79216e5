import type { Steps } from '../../work.ts'
import { placeOf, type ScanBudget } from './scan-budget.ts'

/** Bits of the filter for each character of the text; the filter has at least 2 ** 10 bits and at most 2 ** 19 (64 kB). */
const bitsPerCharacter = 8
const maxIndexBits = 19
const minIndexBits = 10
/** Searches of a text after which its filter costs less than it saves. */
const searchesBeforeFilter = 4
/** Words of a filter that is a plain array: a typed array has memory of its own, which costs a short text more than its searches. */
const maxPlainWords = 1024
/** Characters of a text that one step of `prepare` adds. */
const charactersPerStep = 128 * 1024

/**
 * The Bloom filter of a text's trigrams (three characters in a row), with one hash. Where each key is searched for instead, a
 * completion with 1,000 lore entries costs 497 % more CPU time; where each text has a filter at once, and each filter is a typed array,
 * 5.0 % more (docs/performance.md).
 */
export class TrigramFilter {
  readonly #text: string
  readonly #budget: ScanBudget
  /** 32 bits a word. */
  #words: number[] | Uint32Array | undefined
  /** The bits of a hash that give the bit's index. */
  #indexMask = 0
  #searches = 0

  /** @param text in lower case */
  constructor(text: string, budget: ScanBudget) {
    this.#text = text
    this.#budget = budget
  }

  /** False for most keys that do not occur in the text, and never for one that does. @param trigrams the key's (`trigramsOf`) */
  mayContain(key: string, trigrams: readonly number[]): boolean {
    if (this.#words === undefined) {
      this.#searches += 1
      if (this.#searches <= searchesBeforeFilter) return placeOf(key, this.#text, this.#budget) !== -1
      if (this.#budget.filtersLeft <= 0) return true
      this.#create()
      this.#add(0, this.#text.length)
    }
    const words = this.#words
    const indexMask = this.#indexMask
    for (const trigram of trigrams) {
      const index = trigram & indexMask
      if (words && ((words[index >>> 5] ?? 0) & (1 << (index & 31))) === 0) return false
    }
    return true
  }

  /** Makes the filter now, in steps: the text may have any length. */
  *prepare(): Steps<void> {
    if (this.#words) return
    this.#create()
    for (let start = 0; start < this.#text.length; start += charactersPerStep) {
      this.#add(start, start + charactersPerStep)
      if (this.#budget.isStepOver) yield this.#budget.takeSpentUnits()
    }
  }

  #create(): void {
    const wantedBits = 32 - Math.clz32(this.#text.length * bitsPerCharacter)
    const bits = Math.min(maxIndexBits, Math.max(minIndexBits, wantedBits))
    this.#budget.filtersLeft -= 1
    const words = 2 ** (bits - 5)
    this.#words = words <= maxPlainWords ? new Array<number>(words).fill(0) : new Uint32Array(words)
    this.#indexMask = 2 ** bits - 1
  }

  /** Adds the trigrams that begin from `start` up to `end`. */
  #add(start: number, end: number): void {
    const words = this.#words ?? []
    const indexMask = this.#indexMask
    const text = this.#text.slice(start, end + 2)
    this.#budget.unitsLeft -= text.length
    for (let at = 0; at + 2 < text.length; at++) {
      const index = trigramHash(text, at) & indexMask
      words[index >>> 5] = (words[index >>> 5] ?? 0) | (1 << (index & 31))
    }
  }
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
