import { digestOf, sharedBytes } from '../../src/bytes.ts'
import type { KeptCard } from '../../src/characters/cards/kept-card.ts'
import { keepBookJob } from '../../src/characters/library/jobs.ts'
import type { KeptBook } from '../../src/characters/lore/kept-book.ts'

/** The document of a V3 card with these fields. */
export function documentOf(data: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return { spec: 'chara_card_v3', spec_version: '3.0', data: { name: 'Moss', ...data } }
}

/** A card's document as the service keeps it. */
export function kept(document: Readonly<Record<string, unknown>>, isHeavy = false): KeptCard {
  const bytes = sharedBytes(Buffer.from(JSON.stringify(document)))
  return { digest: digestOf(bytes), document: bytes, isHeavy }
}

/** A V3 card with these fields, as the service keeps it. */
export function keptCard(data: Readonly<Record<string, unknown>>): KeptCard {
  return kept(documentOf(data))
}

/** A lorebook's document as the service keeps it. */
export function keptBook(document: object): KeptBook {
  return keepBookJob.run(Buffer.from(JSON.stringify(document)))
}
