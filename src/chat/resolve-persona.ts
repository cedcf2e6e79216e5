import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../access/guard.ts'
import type { ModelUser } from '../access/model-lists.ts'
import { type Character, foldName, mayRead, parseCharacterName, pinnedName } from '../characters/library/character.ts'
import { type Persona, type RequestTexts, userNameOf } from '../characters/prompt/composition.ts'
import { invalidField } from '../errors.ts'
import { hasLoneSurrogates } from '../http/json.ts'
import type { ModelRegistry } from '../models/registry.ts'
import { checkModelParameters } from '../models/request-parameters.ts'
import type { Route } from '../models/routing/route.ts'
import { type CompletionRequest, ownFields } from '../openai/completion-request.ts'
import { checkMessages } from '../openai/messages.ts'
import { checkWellFormed, replaceLoneSurrogates } from '../text.ts'
import type { ChatOptions } from './options.ts'

/** The persona that a request asks for, with its character and its model. */
export interface ResolvedPersona {
  readonly persona: Persona
  /** The route to the model that the request names, or to the model that the card names. */
  readonly route: Route
  /** The character whose card is played. */
  readonly character?: Character
}

/**
 * Checks the rules that the schema of a request cannot express.
 * @throws ApiError 400 that names the field
 */
function checkRequest(request: CompletionRequest): void {
  checkWellFormed('model', request.model)
  checkMessages(request.messages)
}

/** A request, and the model and the character that `resolveRequest` has found. */
export interface ResolvedRequest {
  readonly body: CompletionRequest
  readonly route: Route
  /** Whether the request names the default model; then the card may name another model. */
  readonly isDefault: boolean
  /**
   * The model id of the request, if this id names the character; otherwise null. With such an id, an unknown character is
   * reported as an unknown model.
   */
  readonly characterModel: string | null
}

/**
 * Reads which model and character a request asks for. The character is named by the model (`character/Fern`), by the field
 * `character`, or by the model's defaults.
 * @returns undefined for an unknown model
 * @throws ApiError 400 that names an invalid field, 400 for two characters
 */
export function resolveRequest(
  sent: CompletionRequest,
  models: ModelRegistry,
  user: ModelUser,
): ResolvedRequest | undefined {
  checkRequest(sent)
  const requested = models.findRequested(sent.model, user)
  if (!requested) return undefined
  const { model, character, route } = requested
  const body = withOwnDefaults(sent, route.candidates[0]?.traits.defaults ?? {})
  const isDefault = model === 'default'
  if (character === null) return { body, route, isDefault, characterModel: null }
  const beside = sent.character?.trim() ?? ''
  if (beside !== '' && foldName(beside) !== foldName(character.trim())) {
    const problem = `is another character than the one of the model ${JSON.stringify(sent.model)}. Leave one of them out`
    throw invalidField('character', problem)
  }
  return { body: { ...body, model, character }, route, isDefault, characterModel: sent.model }
}

/** Takes Conservatory's own fields, such as `character`, from the model's defaults if the request does not have them. */
function withOwnDefaults(sent: CompletionRequest, defaults: Readonly<Record<string, unknown>>): CompletionRequest {
  const missing = ownFields.filter((name) => sent[name] == null && defaults[name] != null)
  return missing.length === 0 ? sent : { ...sent, ...Object.fromEntries(missing.map((name) => [name, defaults[name]])) }
}

/**
 * Finds the persona that a request asks for, and names it in the reply header `x-character`. The header `x-character-unknown` and
 * the log line say that a character without a card is played by its name alone.
 * @throws ApiError 400 for a character name with a lone surrogate, which no header can carry. 404 for an unknown character
 *   (`model_not_found` if the model id names it), if unknown names are refused. An unknown pinned version is always a 404, because
 *   a pin means exactly this version. 503 under load shedding
 */
export async function resolvePersona(
  request: FastifyRequest,
  reply: FastifyReply,
  { body, characterModel, route, isDefault }: ResolvedRequest,
  { library, characters, characterModels, shedLoad, models }: ChatOptions,
): Promise<ResolvedPersona> {
  const caller = callerOf(request)
  const userName = userNameOf(body.user_name)
  const name = body.character?.trim() ?? ''
  if (name === '') {
    checkModelValues(body, route)
    shedLoad(request)
    return { persona: { name: null, card: null, userName }, route }
  }
  checkWellFormed('character', name)
  const character = await library.resolve(caller.account.id, name)
  if (!character) {
    if (characterModel !== null) throw models.notFound(characterModel, caller, await library.names(caller.account.id))
    if (characters === 'closed' || parseCharacterName(name).digest !== undefined)
      throw await library.unknown(caller.account.id, name)
    checkModelValues(body, route)
    shedLoad(request)
    reply.header('x-character', encodeURIComponent(name))
    reply.header('x-character-unknown', 'true')
    request.facts['character_unknown'] = true
    return { persona: { name, card: null, userName }, route }
  }
  const { card, digest } = character
  // If the card names a model that does not exist or that this key may not use, the default model answers.
  const wanted = isDefault && characterModels === 'on' ? card.model : undefined
  const answering = (wanted === undefined ? undefined : models.find(wanted, caller)) ?? route
  checkModelValues(body, answering)
  shedLoad(request)
  reply.header('x-character', pinnedName(encodeURIComponent(character.name), digest))
  return { persona: { name: character.name, card, userName, digest }, route: answering, character }
}

/** Checks values that only an upstream may take, if no model of the route leaves them to one. @throws ApiError 400 */
function checkModelValues(body: CompletionRequest, { candidates }: Route): void {
  if (!candidates.some(({ traits }) => traits.relaysParameters)) checkModelParameters(body)
}

/** The name of the persona, with the digest of its card if it has a card; null when no character is played. */
export function personaName({ name, digest }: Persona): string | null {
  return name === null || digest === undefined ? name : pinnedName(name, digest)
}

const standardNote = { depth: 4, role: 'system' } as const

/**
 * The texts that a request brings for its prompt: a persona, an author's note, and lorebooks. First it replaces lone surrogates
 * in all fields of the request, because no model may get a lone surrogate.
 * @param body is changed if it contains lone surrogates
 * @returns undefined for a request without such texts
 */
export function requestTextsOf(
  request: FastifyRequest,
  body: CompletionRequest,
  { character }: ResolvedPersona,
): RequestTexts | undefined {
  if (hasLoneSurrogates(request)) replaceLoneSurrogates(body)
  const { persona, author_note: note, lorebooks } = body
  const isNoted = note != null && note.text.trim() !== ''
  const isDescribed = persona != null && persona.trim() !== ''
  if (!isDescribed && !isNoted && (lorebooks ?? []).length === 0) return undefined
  const seesCard = !character || mayRead(callerOf(request), character)
  return {
    ...(isDescribed ? { persona } : {}),
    ...(isNoted
      ? {
          authorNote: {
            text: note.text,
            depth: note.depth ?? standardNote.depth,
            role: note.role ?? standardNote.role,
          },
        }
      : {}),
    ...(lorebooks ? { lorebooks } : {}),
    seesCard,
  }
}
