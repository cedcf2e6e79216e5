import { digestOf } from '../../bytes.ts'
import { textIn } from '../../fields.ts'
import { avatarProblem } from '../cards/avatar.ts'
import { type Card, cardData, readCard } from '../cards/card.ts'
import { type CardSource, readCardSource } from '../cards/source.ts'
import { aboutCard, type CardAbout } from '../cards/summary.ts'
import { CardError } from '../documents/card-error.ts'
import type { ReadingNotes } from '../lore/entry.ts'
import { emptyNotes } from '../lore/lorebook.ts'
import { characterNameProblem } from './character.ts'

/** The most characters of a card's name that are read. */
const maxReadLength = 10_000

/** The results of reading a card's bytes. */
export interface ReadCard {
  readonly source: CardSource
  readonly card: Card
  /** SHA-256 of the bytes, 64 hex digits. */
  readonly digest: string
  readonly about: CardAbout
  /** Counts and ignored fields. */
  readonly notes: ReadingNotes
}

/** Reads a card from its bytes. @throws CardError */
export function readCardBytes(bytes: Buffer): ReadCard {
  const source = readCardSource(bytes)
  const notes = emptyNotes()
  const card = readCard(source.document, notes)
  const { has, warning } = avatarProblem(source)
  const about = { ...aboutCard(source.document), avatar: has }
  const warnings = warning === null ? source.warnings : [...source.warnings, warning]
  return { source: { ...source, warnings }, card, digest: digestOf(bytes), about, notes }
}

/**
 * The name of a card, trimmed, as a name for the library.
 * @throws CardError when it is not a valid name
 */
export function nameOf({ source }: { readonly source: Pick<CardSource, 'document'> }): string {
  // `Card.name` is empty for a long name, so the name is read from the document.
  const name = textIn(cardData(source.document).data, 'name')
  // Trimming 16 million blanks would take long, so a longer name is refused with its blanks.
  const trimmed = name.length > maxReadLength ? name.slice(0, maxReadLength) : name.trim()
  const problem = characterNameProblem(trimmed)
  if (problem !== undefined) throw new CardError('card_invalid', `The card's name ${problem}.`)
  if (name.length > maxReadLength) {
    throw new CardError('card_invalid', `The card's name has more than ${maxReadLength} characters. Shorten it.`)
  }
  return trimmed
}
