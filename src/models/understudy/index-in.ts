import type { Steps } from '../../work.ts'

/** Letters that one step may compare: a millisecond. */
const maxCompared = 1_000_000
/** Units of a step, so that the clock is looked at after each: nobody can tell how much of that a step compares. */
const unitsOfWindow = 2000

/**
 * Where a text first stands in another; -1 when it does not. In steps, since two texts that repeat themselves take a time
 * that grows with the product of their lengths.
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
