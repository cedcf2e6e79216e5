import type { Steps } from '../../work.ts'

/** A pair of double braces: where its opening and its closing stand. */
export interface Pair {
  readonly open: number
  readonly close: number
}

const run = /\{{2,}|\}{2,}/g
/** Braces without a partner that are kept in mind: far more than any text of a card has. */
const maxOpenBraces = 50_000
/** What a run of braces, and a pair of them, cost in units of work; and after how many a step ends. */
const unitsOfRun = 12
const unitsOfBrace = 2
const unitsOfStep = 2000

/**
 * Finds the pairs of double braces, by where they open; braces without a partner are in none. Of three braces in a
 * row the outer one is text. It takes time in proportion to the text, whatever is left open in it.
 * @param most after so many pairs it stops
 */
export function* bracePairs(text: string, most = Number.POSITIVE_INFINITY): Steps<readonly Pair[]> {
  const matching = new Matching()
  let units = text.length >> 6
  for (const { 0: braces, index } of text.matchAll(run)) {
    if (matching.pairs >= most || matching.open.length >= maxOpenBraces) break
    units += unitsOfRun
    const end = index + braces.length
    const start = braces[0] === '{' ? index + (braces.length % 2) : index
    for (let at = start; at + 2 <= end && matching.open.length < maxOpenBraces; at += 2) {
      matching.read(braces[0], at)
      units += unitsOfBrace
      if (units < unitsOfStep) continue
      yield units
      units = 0
    }
  }
  if (units > unitsOfStep / 10) yield units
  return yield* matching.found()
}

/** Opening braces in their order, with what closes them. */
class Matching {
  pairs = 0
  /** Which of those that opened are open still. */
  readonly open: number[] = []
  readonly #opens: number[] = []
  /** Where each is closed; -1 where it is not. */
  readonly #closes: number[] = []

  /** Reads the two braces at a place. */
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

  *found(): Steps<readonly Pair[]> {
    const found: Pair[] = []
    for (const [index, close] of this.#closes.entries()) {
      if (close !== -1) found.push({ open: this.#opens[index] ?? 0, close })
      if (index % unitsOfStep === unitsOfStep - 1) yield unitsOfStep * unitsOfBrace
    }
    return found
  }
}

/** The index of the first pair that opens at this place or later. */
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
