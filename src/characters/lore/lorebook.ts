import { type Fields, fieldsIn, isFields, listIn, numberIn, textIn, valueIn } from '../../fields.ts'
import { spend } from '../../work/fuel.ts'
import { CardError } from '../documents/card-error.ts'
import { type LoreEntry, type ReadingNotes, readEntry } from './entry.ts'
import { foreignBook } from './foreign-book.ts'
import { isTimed } from './timers.ts'

/** A lorebook, prepared for scans. It is from a card, from a request, or from the operator (a world book for all characters). */
export interface Lorebook {
  readonly name: string
  /** Entries that are switched on and have content, in the order of the file. */
  readonly entries: readonly LoreEntry[]
  /** Whether some entries are only for some characters or replies. */
  readonly isFiltered: boolean
  /** Whether some entries have `sticky` or `cooldown`. */
  readonly hasTimers: boolean
  /** The recursion levels that entries wait for (`delay_until_recursion`), ascending. */
  readonly levels: readonly number[]
  /** The number of newest messages that are scanned for an entry without its own scan depth. */
  readonly scanDepth: number
  /** The largest scan depth of the book and its entries. */
  readonly maxScanDepth: number
  /** The most tokens of lore; undefined if the book has no budget. */
  readonly tokenBudget: number | undefined
  readonly recursive: boolean
  /** The number of entries in the file; disabled and empty entries count too. */
  readonly written: number
}

/** The most entries of a book. More entries would take time from other requests. */
const maxEntries = 20_000
const standardScanDepth = 4
/** The most levels of nesting in a card or lorebook, so that recursion over them cannot exhaust the stack. */
const maxDepth = 200
/** Units of work to check one value. */
const unitsOfValue = 8

/** Empty notes, for `readCard` and `readLorebook`. */
export function emptyNotes(): ReadingNotes {
  return { patterns: { compiled: 0, steps: 0, refused: [] }, ignored: new Set() }
}

/**
 * Checks the nesting of a document before other code walks the document recursively. This check itself uses no recursion.
 * @returns the number of values in the document: properties and items on all levels
 * @throws CardError when the document nests too deeply
 */
export function checkDocument(document: Fields, what: 'card' | 'lorebook'): number {
  let all = 0
  let level: object[] = [document]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) {
      throw new CardError('card_invalid', `The ${what} is nested deeper than ${maxDepth} levels. Flatten it.`)
    }
    const next: object[] = []
    for (const each of level) {
      const count = gather(each, next)
      all += count
      spend((1 + count) * unitsOfValue)
    }
    level = next
  }
  return all
}

/** Adds the objects and lists in `value` to `found`. @returns the number of all values in `value` */
function gather(value: object, found: object[]): number {
  const values: unknown[] = Object.values(value)
  for (const each of values) if (typeof each === 'object' && each !== null) found.push(each)
  return values.length
}

/**
 * Reads a lorebook in the form that it has in a card.
 * @throws CardError `card_too_large` for too many entries
 */
export function readBook(book: Fields, notes: ReadingNotes): Lorebook {
  const entries = valueIn(book, 'entries')
  const written = isFields(entries) ? Object.values(entries) : listIn(book, 'entries')
  checkCount(written.length)
  const budget = numberIn(book, 'token_budget') ?? 0
  const read: LoreEntry[] = []
  for (const [index, entry] of written.entries()) {
    const made = isFields(entry) ? readEntry(entry, index, notes) : undefined
    if (made) read.push(made)
  }
  const scanDepth = Math.max(0, Math.floor(numberIn(book, 'scan_depth') ?? standardScanDepth))
  return {
    name: textIn(book, 'name'),
    entries: read,
    hasTimers: read.some(isTimed),
    levels: [...new Set(read.map(({ recursionLevel }) => recursionLevel))]
      .filter((level) => level !== 0)
      .sort((a, b) => a - b),
    isFiltered: read.some(({ audience }) => audience !== undefined),
    scanDepth,
    maxScanDepth: read.reduce((deepest, entry) => Math.max(deepest, scanDepthOf(entry)), scanDepth),
    tokenBudget: budget > 0 ? budget : undefined,
    recursive: valueIn(book, 'recursive_scanning') !== false,
    written: written.length,
  }
}

/** The largest scan depth of an entry and its decorators; 0 for none. */
function scanDepthOf({ scanDepth = 0, decorators }: LoreEntry): number {
  return decorators.reduce((deepest, rules) => Math.max(deepest, rules.scanDepth ?? 0), scanDepth)
}

/**
 * Reads a lorebook outside a card: `lorebook_v3`, the `character_book` of a card, or a world file of SillyTavern.
 * @throws CardError if the document is not a lorebook, has a format of another program, nests too deeply or has too many entries
 */
export function readLorebook(document: Fields, notes: ReadingNotes = emptyNotes()): Lorebook {
  checkDocument(document, 'lorebook')
  const foreign = foreignBook(document)
  if (foreign) {
    const message = `This is ${foreign.what}, and its entries cannot be read. ${foreign.advice}`
    throw new CardError('card_unsupported', message)
  }
  const book = bookFields(document)
  const entries = valueIn(book, 'entries')
  if (!isFields(entries) && !Array.isArray(entries)) {
    throw new CardError(
      'card_invalid',
      'The document is not a lorebook: it has no entries. Send an object with a list of entries, or the character_book of a card.',
    )
  }
  if (!isWorldFile(book)) return readBook(book, notes)
  const list: unknown[] = Object.values(entries)
  checkCount(list.length)
  for (const [index, entry] of list.entries()) {
    list[index] = fromWorldFile(entry)
    spend(unitsOfWorldEntry)
  }
  return readBook({ ...book, entries: list }, notes)
}

function checkCount(entries: number): void {
  if (entries <= maxEntries) return
  throw new CardError('card_too_large', `The lorebook has ${entries} entries. At most ${maxEntries} are allowed.`)
}

/** The object that has the entries of a lorebook outside a card: its `data`, or the document itself. */
export function bookFields(document: Fields): Fields {
  const isWrapped = valueIn(document, 'spec') === 'lorebook_v3' || !Object.hasOwn(document, 'entries')
  return isWrapped ? fieldsIn(document, 'data') : document
}

/** Whether some entries of a book have the field names of SillyTavern's world files. */
export function isWorldFile(book: Fields): boolean {
  const entries = valueIn(book, 'entries')
  if (typeof entries !== 'object' || entries === null) return false
  return Object.values(entries).some(
    (entry) => isFields(entry) && Object.hasOwn(entry, 'key') && !Object.hasOwn(entry, 'keys'),
  )
}

/** Units of work to convert an entry of a world file. */
const unitsOfWorldEntry = 300

/** The extensions that SillyTavern's world files have as fields of an entry, under the same names in camel case. */
const worldExtensions = (
  'position depth role selectiveLogic probability useProbability exclude_recursion prevent_recursion delay_until_recursion ' +
  'scan_depth case_sensitive match_whole_words group group_override group_weight sticky cooldown delay display_index ' +
  'match_character_description match_character_personality match_character_depth_prompt match_scenario ' +
  'match_persona_description match_creator_notes triggers vectorized use_group_scoring ignore_budget automation_id'
)
  .split(' ')
  .map((name) => [name, name.replace(/_./g, (letter) => letter.slice(1).toUpperCase())] as const)

/** Converts an entry of a world file to an entry of a card's book. */
function fromWorldFile(entry: unknown): unknown {
  if (!isFields(entry)) return entry
  const extensions = worldExtensions.flatMap(([ours, theirs]) =>
    Object.hasOwn(entry, theirs) ? [[ours, valueIn(entry, theirs)] as const] : [],
  )
  return {
    keys: valueIn(entry, 'key'),
    secondary_keys: valueIn(entry, 'keysecondary'),
    content: valueIn(entry, 'content'),
    comment: valueIn(entry, 'comment'),
    character_filter: valueIn(entry, 'characterFilter'),
    constant: valueIn(entry, 'constant'),
    selective: valueIn(entry, 'selective'),
    insertion_order: valueIn(entry, 'order'),
    enabled: valueIn(entry, 'disable') !== true,
    extensions: { ...fieldsIn(entry, 'extensions'), display_index: 0, ...Object.fromEntries(extensions) },
  }
}
