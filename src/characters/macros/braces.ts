import { spend } from '../../work/fuel.ts'

/** A pair of double braces: the indexes of `{{` and of `}}`. */
export interface Pair {
  readonly open: number
  readonly close: number
}

const braceRun = /\{{2,}|\}{2,}/g
/** The number of unclosed `{{` at which the search for pairs ends. Real cards have far fewer. */
const maxOpenBraces = 50_000
/** Units of work for a run of braces, and for each two braces in the run. */
const unitsOfRun = 12
const unitsOfBrace = 4

/**
 * Finds the pairs of double braces, in the order of their openings. Braces without a partner are in no pair. Of three braces in a
 * row, the outer brace is text. The time is linear in the length of the text, even with many unclosed braces.
 * @param maxPairs the search may stop as soon as it has found so many pairs
 */
export function bracePairs(text: string, maxPairs = Number.POSITIVE_INFINITY): readonly Pair[] {
  const reader = new PairReader()
  spend(text.length >> 6)
  for (const { 0: braces, index } of text.matchAll(braceRun)) {
    if (reader.pairs >= maxPairs || reader.open.length >= maxOpenBraces) break
    const end = index + braces.length
    const start = braces[0] === '{' ? index + (braces.length % 2) : index
    spend(unitsOfRun + unitsOfBrace * ((end - start) >> 1))
    for (let at = start; at + 2 <= end && reader.open.length < maxOpenBraces; at += 2) reader.read(braces[0], at)
  }
  return reader.found()
}

/** Matches closing braces with the opening braces before them. */
class PairReader {
  pairs = 0
  /** Indexes in `#opens` of the openings that are not closed yet. */
  readonly open: number[] = []
  readonly #opens: number[] = []
  /** The index of the closing braces of each opening; -1 if it is not closed. */
  readonly #closes: number[] = []

  /** Reads the two braces at an index. */
  read(brace: string | undefined, at: number): void {
    if (brace === '{') this.#begin(at)
    else this.#end(at)
  }

  #begin(at: number): void {
    this.open.push(this.#opens.length)
    this.#opens.push(at)
    this.#closes.push(-1)
  }

  #end(at: number): void {
    const partner = this.open.pop()
    if (partner === undefined) return
    this.#closes[partner] = at
    this.pairs += 1
  }

  found(): readonly Pair[] {
    const found: Pair[] = []
    for (const [index, close] of this.#closes.entries()) {
      if (close !== -1) found.push({ open: this.#opens[index] ?? 0, close })
    }
    return found
  }
}

/** The index of the first pair that opens at `place` or later (binary search). */
export function firstPairFrom(pairs: readonly Pair[], place: number): number {
  let low = 0
  let high = pairs.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((pairs[middle]?.open ?? 0) < place) low = middle + 1
    else high = middle
  }
  return low
}
