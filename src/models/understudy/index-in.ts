import type { Steps } from '../../work.ts'

/** Comparisons of letters in one step, at most: a millisecond. */
const maxCompared = 1_000_000
/** Units of a step: enough for the clock to be checked after each, because the real number of comparisons is not known. */
const unitsOfWindow = 2000

/**
 * The index of a text in another; -1 where it is not there. It works in steps: for two texts that repeat themselves, the time grows
 * with the product of their lengths.
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
