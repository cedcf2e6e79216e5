import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../access/guard.ts'
import { type Character, pinnedName, readWantedName, unknownCharacter } from '../characters/library/character.ts'
import type { CharacterLibrary } from '../characters/library/library.ts'
import type { Persona } from '../characters/prompt/settings.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import { checkMessages } from '../openai/messages.ts'
import { checkWhole } from '../text.ts'
import type { ChatOptions, UnknownCharacters } from './options.ts'

/** A persona, and how the reply header `x-character` names it; absent when no character is played. */
export interface Casting {
  readonly persona: Persona
  readonly header?: string
  /** Whose card is played. */
  readonly character?: Character
}

/**
 * Checks of a request what its schema cannot.
 * @throws ApiError 400 that names the field
 */
export function checkRequest({ model, messages }: CompletionRequest): void {
  checkWhole('model', model)
  checkMessages(messages)
}

/**
 * Finds out who is played in a request, and names it in the reply's header `x-character`.
 * @throws ApiError as `cast` does, and 503 where there is more to do than can be done now
 */
export async function castRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  body: CompletionRequest,
  { library, characters, lookAgain }: ChatOptions,
): Promise<Casting> {
  const casting = await cast(body, library, characters, callerOf(request).account.id)
  lookAgain(request)
  if (casting.header !== undefined) reply.header('x-character', casting.header)
  return casting
}

/**
 * Finds out who is to be played.
 * @param account whose uploads count
 * @throws ApiError 400 for a name that no header can carry, 404 for one that is not known when that is refused, and for
 * a pinned version that is not there: whoever pins one means no other, and nobody is called like that
 */
async function cast(
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

/** The name of the persona, with the digest of its card where there is one; null when nobody is played. */
export function playedName({ name, digest }: Persona): string | null {
  return name === null || digest === undefined ? name : pinnedName(name, digest)
}
