import type { Key } from '../access/access.ts'
import type { CharacterLibrary } from '../characters/library/library.ts'
import type { ApiError } from '../errors.ts'
import type { ModelRegistry } from './registry.ts'

/** The 404 for an unknown model id, or an id that the key may not use, with the most similar model or character. */
export async function unknownModel(
  id: string,
  caller: Key,
  models: ModelRegistry,
  library: Pick<CharacterLibrary, 'names'>,
): Promise<ApiError> {
  return models.notFound(id, caller, await library.names(caller.account.id))
}
