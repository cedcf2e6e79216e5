import { spend } from '../../work/fuel.ts'

/** The characters of a text that are searched for natively. If both texts are repetitive, this takes time for each of them. */
const headLength = 16

/** Units of work to compare a text at a place where its head is, besides its characters. */
const unitsOfComparison = 50

/** The index of `text` in `whole`, or -1. */
export function indexIn(whole: string, text: string): number {
  spend(1 + (whole.length >> 3))
  const head = text.slice(0, headLength)
  for (let index = whole.indexOf(head); index >= 0; index = whole.indexOf(head, index + 1)) {
    spend(unitsOfComparison + text.length)
    if (whole.startsWith(text, index)) return index
  }
  return -1
}
