import { type ListedCharacter, shownDigest } from './library/character.ts'

/** A character in a list. */
export function listBody({ name, origin, digest, about, created, updated }: ListedCharacter) {
  const times = created === undefined ? {} : { created, updated }
  return { object: 'character', name, origin, digest: shownDigest(digest), ...about, ...times }
}
