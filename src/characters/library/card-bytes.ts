import { hash } from 'node:crypto'
import { type Card, readCard } from '../cards/card.ts'
import { type CardSource, readCardSource } from '../cards/source.ts'
import { aboutCard, type CardAbout } from '../cards/summary.ts'
import { CardError } from '../documents/card-error.ts'
import { characterNameProblem } from './character.ts'

/** All that is made of a card's bytes. */
export interface ReadCard {
  readonly source: CardSource
  readonly card: Card
  /** SHA-256 of the bytes, 64 hex digits. */
  readonly digest: string
  readonly about: CardAbout
}

/**
 * Reads a card from its bytes.
 * @throws CardError
 */
export function readCardBytes(bytes: Buffer): ReadCard {
  const source = readCardSource(bytes)
  const card = readCard(source.document)
  const digest = hash('sha256', bytes)
  return { source, card, digest, about: aboutCard(source.document) }
}

/**
 * The name that a card brings, fit to be kept under.
 * @throws CardError when it brings none that is
 */
export function nameOf({ name }: Pick<Card, 'name'>): string {
  const trimmed = name.trim()
  const problem = characterNameProblem(trimmed)
  if (problem !== undefined) throw new CardError('card_invalid', `The card's name ${problem}.`)
  return trimmed
}
