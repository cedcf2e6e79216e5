import { checkWhole } from '../../text.ts'
import type { Persona } from '../prompt/settings.ts'
import { type Character, pinnedName, readWantedName, unknownCharacter } from './character.ts'
import type { CharacterLibrary } from './library.ts'

/** Whether a name that is not known is played by its name alone, or refused. */
export type UnknownCharacters = 'open' | 'closed'

/** A persona, and how the reply header `x-character` names it; absent when no character is played. */
export interface Casting {
  readonly persona: Persona
  readonly header?: string
  /** Whose card is played. */
  readonly character?: Character
}

/**
 * Finds out who is to be played.
 * @param account whose uploads count
 * @throws ApiError 400 for a name that no header can carry, 404 for one that is not known when that is refused, and for
 * a pinned version that is not there: whoever pins one means no other, and nobody is called like that
 */
export async function cast(
  { character, user_name }: { readonly character?: string | null; readonly user_name?: string | null },
  library: CharacterLibrary,
  unknown: UnknownCharacters,
  account: number,
): Promise<Casting> {
  const userName = user_name?.trim() || 'User'
  const name = character?.trim() ?? ''
  if (name === '') return { persona: { name: null, card: null, userName } }
  checkWhole('character', name)
  const found = await library.resolve(account, name)
  if (found) {
    const header = pinnedName(encodeURIComponent(found.name), found.digest)
    return { persona: { name: found.name, card: found.card, userName, digest: found.digest }, header, character: found }
  }
  if (unknown === 'closed' || readWantedName(name).digest !== undefined) throw unknownCharacter()
  return { persona: { name, card: null, userName }, header: encodeURIComponent(name) }
}
