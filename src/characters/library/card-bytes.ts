import { createHash } from 'node:crypto'
import { type Steps, workAtOnce } from '../../work.ts'
import { avatarProblem } from '../cards/avatar.ts'
import { type Card, readCard } from '../cards/card.ts'
import { type CardSource, cardSourceSteps } from '../cards/source.ts'
import { aboutCard, type CardAbout } from '../cards/summary.ts'
import { CardError } from '../documents/card-error.ts'
import type { ReadingNotes } from '../lore/entry.ts'
import { emptyNotes } from '../lore/lorebook.ts'
import { characterNameProblem } from './character.ts'

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

/**
 * Reads a card from its bytes.
 * @param onValues called with the number of JSON values in the card before they become its texts and lore
 * @throws CardError, and errors of `onValues`
 */
export function* cardSteps(bytes: Buffer, onValues?: (count: number) => void): Steps<ReadCard> {
  const source = yield* cardSourceSteps(bytes)
  onValues?.(yield* valuesIn(source.document))
  const notes = emptyNotes()
  const card = yield* readCard(source.document, notes)
  const digest = yield* digestOf(bytes)
  const { has, warning } = yield* avatarProblem(source)
  const about = { ...aboutCard(source.document), avatar: has }
  const warnings = warning === null ? source.warnings : [...source.warnings, warning]
  return { source: { ...source, warnings }, card, digest, about, notes }
}

/** Runs `cardSteps` without interruption, for commands. */
export function readCardBytes(bytes: Buffer): ReadCard {
  return workAtOnce().run('card', cardSteps(bytes))
}

/** The number of values in a parsed JSON document: properties and items on all levels. */
function* valuesIn(document: unknown): Steps<number> {
  const open = [document]
  let count = 0
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (typeof value !== 'object' || value === null) continue
    const values: readonly unknown[] = Object.values(value)
    for (const each of values) if (typeof each === 'object') open.push(each)
    count += values.length
    yield values.length
  }
  return count
}

/** Bytes that one step hashes: this takes about a millisecond. */
const digestPieceBytes = 1024 * 1024

function* digestOf(bytes: Buffer): Steps<string> {
  const digest = createHash('sha256')
  for (let start = 0; start < bytes.length; start += digestPieceBytes) {
    digest.update(bytes.subarray(start, start + digestPieceBytes))
    yield digestPieceBytes >> 4
  }
  return digest.digest('hex')
}

/**
 * The name of a card, trimmed, as a name for the library.
 * @throws CardError when it is not a valid name
 */
export function nameOf({ name }: Pick<Card, 'name'>): string {
  const trimmed = name.trim()
  const problem = characterNameProblem(trimmed)
  if (problem !== undefined) throw new CardError('card_invalid', `The card's name ${problem}.`)
  return trimmed
}
