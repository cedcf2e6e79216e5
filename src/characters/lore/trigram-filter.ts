import { placeOf, type ScanBudget } from './scan-budget.ts'

/** Bits of the filter for each character. Their sum is rounded up to a power of two, from 2 ** 10 to 2 ** 19 bits (64 KiB). */
const bitsPerCharacter = 8
const maxIndexBits = 19
const minIndexBits = 10
/** The number of searches of a text before its filter is made. For so few searches, a filter costs more than it saves. */
const searchesBeforeFilter = 4
/**
 * The most words of a filter that is a plain array. A larger filter is a typed array, whose memory is allocated outside of the
 * heap. For a short text, this allocation would cost more than the searches.
 */
const maxPlainWords = 1024

/**
 * The Bloom filter of a text's trigrams (three characters in a row), with one hash. Without filters, a completion with 1,000 lore
 * entries costs 497 % more CPU time. If each text had a filter from its first search on, and each filter were a typed array, the
 * completion would cost 5.0 % more (docs/performance.md).
 */
export class TrigramFilter {
  readonly #text: string
  readonly #budget: ScanBudget
  /** The bits, 32 in a word; undefined until the filter is made. */
  #words: number[] | Uint32Array | undefined
  /** The mask that takes the index of a bit from a hash. */
  #indexMask = 0
  #searches = 0

  /** @param text in lower case */
  constructor(text: string, budget: ScanBudget) {
    this.#text = text
    this.#budget = budget
  }

  /**
   * True for every key that occurs in the text, and false for most keys that do not occur. If the budget has no filters left when
   * this text needs one, the result is true for every key.
   * @param key in lower case
   * @param trigrams `trigramsOf` the key
   */
  mayContain(key: string, trigrams: readonly number[]): boolean {
    if (this.#words === undefined) {
      this.#searches += 1
      if (this.#searches <= searchesBeforeFilter) return placeOf(key, this.#text, this.#budget) !== -1
      if (this.#budget.filtersLeft <= 0) return true
      this.prepare()
    }
    const words = this.#words
    const indexMask = this.#indexMask
    for (const trigram of trigrams) {
      const index = trigram & indexMask
      if (words && ((words[index >>> 5] ?? 0) & (1 << (index & 31))) === 0) return false
    }
    return true
  }

  /** Makes the filter now. */
  prepare(): void {
    if (this.#words) return
    const wantedBits = 32 - Math.clz32(this.#text.length * bitsPerCharacter)
    const bits = Math.min(maxIndexBits, Math.max(minIndexBits, wantedBits))
    this.#budget.filtersLeft -= 1
    const words = 2 ** (bits - 5)
    this.#words = words <= maxPlainWords ? new Array<number>(words).fill(0) : new Uint32Array(words)
    this.#indexMask = 2 ** bits - 1
    this.#addAll(this.#words, this.#indexMask)
  }

  /** Adds all trigrams of the text. */
  #addAll(words: number[] | Uint32Array, indexMask: number): void {
    const text = this.#text
    this.#budget.spend(text.length)
    let first = text.charCodeAt(0)
    let second = text.charCodeAt(1)
    for (let at = 2; at < text.length; at++) {
      const third = text.charCodeAt(at)
      const index = hashOf(first, second, third) & indexMask
      words[index >>> 5] = (words[index >>> 5] ?? 0) | (1 << (index & 31))
      first = second
      second = third
    }
  }
}

/**
 * Hashes of up to three trigrams of a key. Empty for a key with fewer than three characters.
 * @param lower the key in lower case
 */
export function trigramsOf(lower: string): readonly number[] {
  const last = lower.length - 3
  if (last < 0) return []
  // The last trigram comes first, because keys of one book often begin alike (`place 7`, `place 8`).
  return [...new Set([last, 0, (last + 1) >> 1])].map((index) => trigramHash(lower, index))
}

function trigramHash(text: string, index: number): number {
  return hashOf(text.charCodeAt(index), text.charCodeAt(index + 1), text.charCodeAt(index + 2))
}

/** A hash of three characters. It shifts by five bits, as letters of one alphabet differ in the lowest five. */
function hashOf(first: number, second: number, third: number): number {
  return (first << 10) ^ (second << 5) ^ third ^ (third >>> 5)
}
