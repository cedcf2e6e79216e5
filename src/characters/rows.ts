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

/** The first and the last digest that begin like this: any such text lies between it and it with the highest digits behind. */
export function digestsLike(beginning: string): readonly [first: string, last: string] {
  return [beginning, beginning.padEnd(64, 'f')]
}

/** The character that a row tells of. */
export function toCharacter({ name, digest, about, created, updated }: CharacterRow): StoredCharacter {
  const read: CardAbout = JSON.parse(about)
  return { name, digest, created, updated, origin: 'account', about: read }
}
