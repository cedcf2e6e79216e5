import { lowerCaseOf } from '../text.ts'

/** The most characters of a folded name: indexes of PostgreSQL take at most 2,704 bytes, and one character may fold to 18. */
const maxFoldedName = 255

/**
 * Folds a text for searches and orders that ignore case: NFKC, then upper case, then lower case. The engines differ in what they
 * fold, so they only compare folded texts.
 */
export function fold(text: string): string {
  // Most texts have the letters of English alone: for them the other steps change nothing.
  if (/^[\x20-\x7e]*$/.test(text)) return text.toLowerCase()
  return lowerCaseOf(text.normalize('NFKC').toUpperCase())
}

/** The texts of a plant in which `q` is looked for. */
export interface SearchedTexts {
  readonly name: string
  readonly tag?: string | null | undefined
  readonly species?: string | null | undefined
  readonly place?: string | null | undefined
}

/**
 * The columns `folded` and `found` of a plant. `folded` is the beginning of the folded name, by which lists are sorted. `found` has
 * the folded name, tag, species and place, each on a line. No text of a plant has a line break, so a search finds no text that goes
 * from one line to the next.
 */
export function foldedColumns({ name, tag, species, place }: SearchedTexts): { folded: string; found: string } {
  const whole = fold(name)
  const folded = whole.length > maxFoldedName ? Array.from(whole).slice(0, maxFoldedName).join('') : whole
  let found = whole
  for (const text of [tag, species, place]) if (text !== undefined && text !== null) found += `\n${fold(text)}`
  return { folded, found }
}
