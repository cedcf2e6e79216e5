import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../access/guard.ts'
import type { ModelUser } from '../access/model-lists.ts'
import {
  type Character,
  foldName,
  parseCharacterName,
  pinnedName,
  unknownCharacter,
} from '../characters/library/character.ts'
import type { CharacterLibrary } from '../characters/library/library.ts'
import { defaultUserName, type Persona } from '../characters/prompt/settings.ts'
import { type ApiError, invalidField } from '../errors.ts'
import type { ModelRegistry } from '../models/registry.ts'
import type { Route } from '../models/routing/route.ts'
import { type CompletionRequest, ownFields } from '../openai/completion-request.ts'
import { checkMessages } from '../openai/messages.ts'
import { checkTools } from '../openai/tools.ts'
import { checkWellFormed } from '../text.ts'
import type { ChatOptions, UnknownCharacters } from './options.ts'

/** A persona, and how the reply header `x-character` names it; absent when no character is played. */
export interface Casting {
  readonly persona: Persona
  readonly header?: string
  /** What is asked: the model that the request names, or the one that the card does. */
  readonly route: Route
  /** Whose card is played. */
  readonly character?: Character
}

/**
 * Checks of a request what its schema cannot.
 * @throws ApiError 400 that names the field
 */
function checkRequest(request: CompletionRequest): void {
  checkWellFormed('model', request.model)
  checkMessages(request.messages)
  checkTools(request)
}

/** A request with the model and the character that it asks for, whichever way it names them. */
export interface WantedRequest {
  readonly body: CompletionRequest
  readonly route: Route
  /** Whether it is the default model that is named, in place of which the card may name another. */
  readonly isDefault: boolean
  /** The model's id as it was sent, where it names the character: then one that is not there is a model that is not there. */
  readonly playedModel: string | null
}

/**
 * Reads what model and character a request asks for: by the character as a model (`character/Fern`), by the field
 * `character`, or by what the model has as its default.
 * @throws ApiError 404 for a model that is not there, 400 for two characters
 */
export function wantedRequest(sent: CompletionRequest, models: ModelRegistry, user: ModelUser): WantedRequest {
  checkRequest(sent)
  const { model, character, route } = models.resolveRequested(sent.model, user)
  const body = withOwnDefaults(sent, route.candidates[0]?.traits.defaults ?? {})
  const isDefault = model === 'default'
  if (character === null) return { body, route, isDefault, playedModel: null }
  const beside = sent.character?.trim() ?? ''
  if (beside !== '' && foldName(beside) !== foldName(character.trim())) {
    const problem = `is another character than the one of the model ${JSON.stringify(sent.model)}. Leave one of them out`
    throw invalidField('character', problem)
  }
  return { body: { ...body, model, character }, route, isDefault, playedModel: sent.model }
}

/** The fields that are only ours, as the model has them, where the request does not. */
function withOwnDefaults(sent: CompletionRequest, defaults: Readonly<Record<string, unknown>>): CompletionRequest {
  const missing = ownFields.filter((name) => sent[name] == null && defaults[name] != null)
  return missing.length === 0 ? sent : { ...sent, ...Object.fromEntries(missing.map((name) => [name, defaults[name]])) }
}

/**
 * Finds out who is played in a request, and names it in the reply's header `x-character`.
 * @throws ApiError as `cast` does, 404 `model_not_found` for a model that names a character that is not there, and 503 where there is more to do than can be done now
 */
export async function castRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  { body, playedModel, route, isDefault }: WantedRequest,
  { library, characters, characterModels, shedLoad, models }: ChatOptions,
): Promise<Casting> {
  const caller = callerOf(request)
  const unknown = playedModel === null ? characters : 'closed'
  const refusal = () => (playedModel === null ? unknownCharacter() : models.notFound(playedModel, caller))
  const casting = await cast(body, library, unknown, caller.account.id, refusal)
  shedLoad(request)
  if (casting.header !== undefined) reply.header('x-character', casting.header)
  const wanted = isDefault && characterModels === 'on' ? casting.persona.card?.model : undefined
  // A card of somebody else may name a model that is not here, or not for this key: the default model was asked for.
  return { ...casting, route: (wanted === undefined ? undefined : models.find(wanted, caller)) ?? route }
}

/**
 * Finds out who is to be played.
 * @param account whose uploads count
 * @param refusal the 404 for one that is not known
 * @throws ApiError 400 for a name that no header can carry, 404 for one that is not known when that is refused, and for
 * a pinned version that is not there: whoever pins one means no other, and nobody is called like that
 */
async function cast(
  { character, user_name }: { readonly character?: string | null; readonly user_name?: string | null },
  library: CharacterLibrary,
  unknown: UnknownCharacters,
  account: number,
  refusal: () => ApiError,
): Promise<Omit<Casting, 'route'>> {
  const userName = user_name?.trim().toWellFormed() || defaultUserName
  const name = character?.trim() ?? ''
  if (name === '') return { persona: { name: null, card: null, userName } }
  checkWellFormed('character', name)
  const found = await library.resolve(account, name)
  if (found) {
    const header = pinnedName(encodeURIComponent(found.name), found.digest)
    return { persona: { name: found.name, card: found.card, userName, digest: found.digest }, header, character: found }
  }
  if (unknown === 'closed' || parseCharacterName(name).digest !== undefined) throw refusal()
  return { persona: { name, card: null, userName }, header: encodeURIComponent(name) }
}

/** The name of the persona, with the digest of its card where there is one; null when nobody is played. */
export function playedName({ name, digest }: Persona): string | null {
  return name === null || digest === undefined ? name : pinnedName(name, digest)
}
