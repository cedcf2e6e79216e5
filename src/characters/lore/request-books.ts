import { ApiError } from '../../errors.ts'
import type { Fields } from '../../fields.ts'
import { spend } from '../../work/fuel.ts'
import { CardError } from '../documents/card-error.ts'
import type { LoreEntry } from './entry.ts'
import { isSlashForm } from './keys.ts'
import { emptyNotes, type Lorebook, readLorebook } from './lorebook.ts'

/** The lorebooks of a request, and their refused regular expressions, which match nothing. */
interface RequestBooks {
  readonly books: readonly Lorebook[]
  readonly refusedRegexes: readonly string[]
}

/**
 * Reads the lorebooks of a request. Each book has the limits of a card's lorebook, but the limits for regular expressions apply
 * to all books together. A book cannot switch off the operator's prompts: `@@disable_ui_prompt` has no effect.
 * @param books `lorebook_v3`, books as in cards, or world files of SillyTavern
 * @param seesCard whether the caller may read the card. If not, the card's texts are not searched, because a match would reveal
 *   a part of them
 * @throws ApiError 400 `invalid_field` that names the book that cannot be read, and the reason
 */
export function readRequestBooks(books: readonly Fields[], seesCard: boolean): RequestBooks {
  const notes = emptyNotes()
  const read: Lorebook[] = []
  for (const [index, document] of books.entries()) {
    const place = `lorebooks[${index}]`
    try {
      const book = readLorebook(document, notes)
      spend(book.entries.length * unitsOfEntry)
      read.push({
        ...book,
        name: book.name || place,
        entries: book.entries.map((entry) => ofRequest(entry, seesCard)),
      })
    } catch (error) {
      if (!(error instanceof CardError)) throw error
      throw new ApiError(400, 'invalid_field', `The field "${place}" is not a usable lorebook: ${error.message}`, {
        param: place,
        cause: error,
      })
    }
  }
  return { books: read, refusedRegexes: notes.patterns.refused }
}

const unitsOfEntry = 30

/**
 * Whether a text in these lorebooks may be a regular expression: a key with slashes, or an entry whose decorators may have one. It
 * is a quick test, which is also true for some books without patterns.
 */
export function hasPatterns(value: unknown): boolean {
  if (typeof value === 'string')
    return isSlashForm(value) || (value.trimStart().startsWith('@@') && value.includes('/'))
  return typeof value === 'object' && value !== null && Object.values(value).some(hasPatterns)
}

/** An entry without `@@disable_ui_prompt`, and without searches in the card's texts if the caller may not read the card. */
function ofRequest(entry: LoreEntry, seesCard: boolean): LoreEntry {
  const alsoScans = seesCard ? entry.alsoScans : entry.alsoScans.filter((field) => field === 'persona')
  const disables = entry.decorators.some((rules) => rules.disables !== undefined)
  if (alsoScans.length === entry.alsoScans.length && !disables) return entry
  const decorators = entry.decorators.map(({ disables: _disables, ...rules }) => rules)
  return { ...entry, alsoScans, decorators }
}
