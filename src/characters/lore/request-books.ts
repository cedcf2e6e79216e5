import { ApiError } from '../../errors.ts'
import type { Fields } from '../../fields.ts'
import type { Steps } from '../../work.ts'
import { CardError } from '../documents/card-error.ts'
import type { LoreEntry } from './entry.ts'
import { emptyNotes, type Lorebook, readLorebook } from './lorebook.ts'

/** The lorebooks of a request, and the regular expressions in them that never match here. */
interface RequestBooks {
  readonly books: readonly Lorebook[]
  readonly refusedRegexes: readonly string[]
}

/**
 * Reads the lorebooks of a request. Each has the limits of a card's lorebook; the limit of regular expressions holds for all together.
 * They cannot switch off the operator's prompts (`@@disable_ui_prompt`).
 * @param books `lorebook_v3`, books as in cards, or world files of SillyTavern
 * @param seesCard whether keys may be searched for in the card's own texts: a match reveals these texts to the caller
 * @throws ApiError 400 that names the item which is not a lorebook or is too large
 */
export function* readRequestBooks(books: readonly Fields[], seesCard: boolean): Steps<RequestBooks> {
  const notes = emptyNotes()
  const read: Lorebook[] = []
  for (const [index, document] of books.entries()) {
    const place = `lorebooks[${index}]`
    try {
      const book = yield* readLorebook(document, notes)
      yield book.entries.length * unitsOfEntry
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

/** An entry without the features that are only for books of the card and of the operator. */
function ofRequest(entry: LoreEntry, seesCard: boolean): LoreEntry {
  const alsoScans = seesCard ? entry.alsoScans : entry.alsoScans.filter((field) => field === 'persona')
  const disables = entry.decorators.some((rules) => rules.disables !== undefined)
  if (alsoScans.length === entry.alsoScans.length && !disables) return entry
  const decorators = entry.decorators.map(({ disables: _disables, ...rules }) => rules)
  return { ...entry, alsoScans, decorators }
}
