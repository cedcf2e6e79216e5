import type { Steps } from '../../work.ts'

/** The most comparisons of letters in one step, which takes about a millisecond. */
const maxCompared = 1_000_000
/** Units of work of a step. The real work is not known, so the number is large enough that the clock is read after each step. */
const unitsOfWindow = 2000

/**
 * The index of `text` in `whole`, or -1. The search has steps: if both texts are repetitive, its time grows with the product of
 * their lengths.
 */
export function* indexIn(whole: string, text: string): Steps<number> {
  const starts = Math.ceil(maxCompared / (text.length + 1))
  for (let from = 0; from + text.length <= whole.length; from += starts) {
    const index = whole.slice(from, from + starts - 1 + text.length).indexOf(text)
    if (index >= 0) return from + index
    yield unitsOfWindow
  }
  return -1
}
