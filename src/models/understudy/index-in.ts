import type { Steps } from '../../work.ts'

/** The most comparisons of letters in one step. They take a millisecond. */
const maxCompared = 1_000_000
/** Units of work of a step. They are enough for the clock to be read after each step, because the real work is not known. */
const unitsOfWindow = 2000

/**
 * The index of a text in another; -1 if the text does not occur. The search is done in steps, because its time grows with the
 * product of the two lengths if both texts repeat themselves.
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
