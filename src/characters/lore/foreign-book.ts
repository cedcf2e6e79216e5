import { type Fields, isFields, valueIn } from '../../fields.ts'

/** A file format of another program, and how to convert such a file. */
export interface ForeignFormat {
  /** The format as a noun with its article: "a character in Agnai's own format". */
  readonly what: string
  /** How to convert the file, in one sentence. */
  readonly advice: string
}

/** A format, and the test that recognizes its files. */
export interface FormatRule extends ForeignFormat {
  readonly fits: (document: Fields) => boolean
}

const is = (name: string, value: string) => (document: Fields) => valueIn(document, name) === value
const has = (document: Fields, ...names: readonly string[]) => names.every((name) => Object.hasOwn(document, name))

const asBook = 'Import it into SillyTavern or RisuAI, and export it there as world info or as lorebook_v3.'

/** Lorebook formats of other programs. */
const books: readonly FormatRule[] = [
  { what: "a memory book in Agnai's own format", advice: asBook, fits: is('kind', 'memory') },
  { what: "a lorebook in NovelAI's own format", advice: asBook, fits: (document) => has(document, 'lorebookVersion') },
  {
    what: "a lorebook in RisuAI's own format",
    advice: 'Export it from RisuAI as lorebook_v3.',
    fits: is('type', 'risu'),
  },
  { what: "a memory book in Voxta's own format", advice: asBook, fits: is('$type', 'book') },
]

/** The foreign format of a lorebook; undefined if the lorebook has none of the known foreign formats. */
export function foreignBook(document: Fields): ForeignFormat | undefined {
  return books.find(({ fits }) => fits(document)) ?? bookOfEntries(document)
}

/**
 * The format that the first entry of a book shows: Agnai's entries have `keywords` and `entry`, NovelAI's have `text` and `keys`.
 */
function bookOfEntries(document: Fields): ForeignFormat | undefined {
  const entries = valueIn(document, 'entries')
  const first: unknown = typeof entries === 'object' && entries !== null ? Object.values(entries)[0] : undefined
  if (!isFields(first) || Object.hasOwn(first, 'content')) return undefined
  if (has(first, 'keywords', 'entry')) return books[0]
  return has(first, 'text', 'keys') ? books[1] : undefined
}
