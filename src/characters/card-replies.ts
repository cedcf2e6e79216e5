import { requireScope } from '../access/guard.ts'
import { type Character, unknownCharacter } from './library/character.ts'
import type { CharacterLibrary } from './library/library.ts'

/** The check for routes that read characters: the key needs one of these scopes. */
export const toRead = requireScope('chat', 'characters:write')

/**
 * Reads the bytes of a found character.
 * @throws ApiError 404 if the character was removed or changed since it was found
 */
export async function readSource(
  library: CharacterLibrary,
  account: number,
  character: Pick<Character, 'name' | 'digest'>,
): Promise<Buffer> {
  const bytes = await library.source(account, character)
  if (!bytes) throw unknownCharacter()
  return bytes
}

let loading: Promise<typeof import('./reply-jobs.ts')> | undefined

/** The jobs that make replies from cards. They are loaded when they are first needed. */
export function replyJobs() {
  loading ??= import('./reply-jobs.ts')
  return loading
}
