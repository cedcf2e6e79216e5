import type { CardAbout } from './cards/summary.ts'
import type { StoredCharacter } from './library/character.ts'

/** An uploaded character as the database keeps it. */
export interface CharacterRow {
  readonly name: string
  readonly digest: string
  readonly about: string
  readonly created: number
  readonly updated: number
}

/** The character that a row tells of. */
export function toCharacter({ name, digest, about, created, updated }: CharacterRow): StoredCharacter {
  const read: CardAbout = JSON.parse(about)
  return { name, digest, created, updated, origin: 'account', about: read }
}
