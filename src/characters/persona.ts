import { ApiError } from '../errors.ts'
import type { CharacterLibrary } from './library.ts'
import type { Persona } from './prompt.ts'

/** Whether a name that is not known is played by its name alone, or refused. */
export type UnknownCharacters = 'open' | 'closed'

/** A persona, and how the reply header `x-character` names it; absent when no character is played. */
export interface Casting {
  readonly persona: Persona
  readonly header?: string
}

/**
 * Finds out who is to be played.
 * @throws ApiError 400 for a name that no header can carry, 404 for one that is not known when that is refused
 */
export function cast(
  { character, user_name }: { readonly character?: string | null; readonly user_name?: string | null },
  library: CharacterLibrary,
  unknown: UnknownCharacters,
): Casting {
  const userName = user_name?.trim() || 'User'
  const name = character?.trim() ?? ''
  if (name === '') return { persona: { name: null, card: null, userName } }
  if (!name.isWellFormed()) {
    throw new ApiError(
      400,
      'invalid_field',
      'The field "character" has half of a surrogate pair. Send whole characters.',
      { param: 'character' },
    )
  }
  const found = library.find(name)
  if (found) {
    const header = `${encodeURIComponent(found.name)}@sha256:${found.digest}`
    return { persona: { name: found.name, card: found.card, userName }, header }
  }
  if (unknown === 'closed') {
    throw new ApiError(404, 'character_not_found', 'There is no character of this name here. Check the name.', {
      param: 'character',
    })
  }
  return { persona: { name, card: null, userName }, header: encodeURIComponent(name) }
}
