import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import { type Guard, requireScope } from '../access/guard.ts'
import type { CharacterLibrary } from '../characters/library.ts'
import { composePrompt, type Persona, type PromptSettings } from '../characters/prompt.ts'
import { ApiError, toApiError } from '../errors.ts'
import { answers } from '../http/openapi-fields.ts'
import { unknownRoute } from '../http/unknown-route.ts'
import type { Model, ModelRequest } from '../models/model.ts'
import type { ModelListing, ModelRegistry } from '../models/registry.ts'
import { ChatError, Completion, CompletionRequest } from './completion.ts'
import { checkMessages } from './messages.ts'
import { clientGone, sendEvents } from './reply.ts'

/** What the chat group is built from. */
export interface ChatOptions {
  readonly guard: Guard
  readonly models: ModelRegistry
  readonly library: CharacterLibrary
  readonly prompt: PromptSettings
  /** Whether a name that is not known is played (`open`) or refused (`closed`). */
  readonly characters: 'open' | 'closed'
  /** Bytes. */
  readonly bodyLimit: number
  readonly sseKeepaliveMs: number
  /** The `/v1` alias is outside the contract, and so not in the OpenAPI document. */
  readonly isAlias?: boolean
}

const ListedModel = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('model'),
    created: Type.Integer({ description: 'Unix seconds.' }),
    owned_by: Type.String(),
  },
  { title: 'Model', examples: [{ id: 'understudy', object: 'model', created: 1795132800, owned_by: 'conservatory' }] },
)

const ModelList = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(ListedModel), has_more: Type.Literal(false) },
  { title: 'ModelList' },
)

const security: readonly Readonly<Record<string, readonly string[]>>[] = [{ apiKey: [] }, { bearer: [] }]
/** What can go wrong on every route of the group. */
const refusals = [401, 403, 429, 500, 503]

/** The chat completion interface (spec, section 4.3), and the list of models. */
export const chatPlugin: FastifyPluginAsyncTypebox<ChatOptions> = async (app, options) => {
  const { guard, models, library } = options
  const hide = options.isAlias === true
  const openedAt = Math.floor(Date.now() / 1000)

  app.addHook('onRequest', (request) => guard.admitApiKey(request))
  app.addHook('onRequest', requireScope('chat'))

  const personaOf = ({ character, user_name }: CompletionRequest): Persona & { readonly header?: string } => {
    const userName = user_name?.trim() || 'User'
    if (character == null || character.trim() === '') return { name: null, card: null, userName }
    checkWellFormed('character', character)
    const found = library.find(character)
    if (found) {
      const header = `${encodeURIComponent(found.name)}@sha256:${found.digest}`
      return { name: found.name, card: found.card, userName, header }
    }
    if (options.characters === 'closed') {
      throw new ApiError(404, 'character_not_found', 'There is no character of this name here. Check the name.', {
        param: 'character',
      })
    }
    return { name: character, card: null, userName, header: encodeURIComponent(character) }
  }

  app.post(
    '/chat/completions',
    {
      bodyLimit: options.bodyLimit,
      schema: {
        hide,
        operationId: 'createChatCompletion',
        summary: 'Create a chat completion',
        description:
          'Answers the conversation as the character. With `stream: true` the reply is `text/event-stream`: chunk objects, then `data: [DONE]`. Parameters that are not listed here go to the model untouched.',
        tags: ['chat'],
        security,
        body: CompletionRequest,
        response: answers({ 200: Completion }, ChatError, [...refusals, 400, 404, 413, 415, 502, 504]),
      },
    },
    async (request, reply) => {
      const { body } = request
      checkWellFormed('model', body.model)
      checkMessages(body.messages)
      const { name, model, upstreamId } = models.resolve(body.model)
      const { header, ...persona } = personaOf(body)
      const messages = composePrompt(persona, body.messages, options.prompt)
      const modelRequest: ModelRequest = {
        body: { ...withoutOwnFields(body), model: upstreamId, messages: [...messages] },
        persona,
      }

      reply.header('x-model', encodeURIComponent(name))
      if (header !== undefined) reply.header('x-character', header)
      const ignored = ignoredParameters(body, model)
      if (ignored.length > 0) reply.header('x-ignored-params', ignored.join(','))
      request.facts['model'] = name

      const signal = clientGone(reply)
      try {
        if (body.stream === true) {
          return await sendEvents(reply, model.stream(modelRequest, signal), {
            includeUsage: body.stream_options?.include_usage === true,
            keepaliveMs: options.sseKeepaliveMs,
            onEnd: (state) => {
              request.facts['state'] = state
            },
          })
        }
        const { completion, text } = await model.complete(modelRequest, signal)
        request.facts['state'] = completion.choices[0]?.finish_reason ?? 'stop'
        return reply.type('application/json; charset=utf-8').send(text ?? JSON.stringify(completion))
      } catch (thrown) {
        const error = signal.aborted ? new ApiError(499, 'client_gone', 'The client went away.') : toApiError(thrown)
        request.facts['state'] = error.code
        throw error
      }
    },
  )

  const listed = ({ id, ownedBy }: ModelListing) => ({
    id,
    object: 'model' as const,
    created: openedAt,
    owned_by: ownedBy,
  })

  app.get(
    '/models',
    {
      schema: {
        hide,
        operationId: 'listModels',
        summary: 'List models',
        description:
          '`understudy` is the embedded stand-in: no neural network; it plays a character from its card, the same way every time.',
        tags: ['chat'],
        security,
        response: answers({ 200: ModelList }, ChatError, refusals),
      },
    },
    async () => ({ object: 'list' as const, data: models.list().map(listed), has_more: false as const }),
  )

  const describe = (id: string) => {
    if (id === '') throw unknownRoute()
    const listing = models.list().find((candidate) => candidate.id === id)
    return listed(listing ?? { id: models.resolve(id).name, ownedBy: 'upstream' })
  }

  app.get(
    '/models/:id',
    {
      schema: {
        hide,
        operationId: 'getModel',
        summary: 'Get a model',
        tags: ['chat'],
        security,
        params: Type.Object({ id: Type.String({ examples: ['understudy'] }) }),
        response: answers({ 200: ListedModel }, ChatError, [...refusals, 404]),
      },
    },
    async (request) => describe(request.params.id),
  )
  // Ids may hold slashes, and not every client encodes them.
  app.get('/models/*', { schema: { hide: true, params: Type.Object({ '*': Type.String() }) } }, async (request) =>
    describe(request.params['*']),
  )
}

/**
 * Refuses half a character where a text goes into a reply header, which cannot carry it.
 * @throws ApiError 400 that names the field
 */
function checkWellFormed(param: string, text: string): void {
  if (text.isWellFormed()) return
  const message = `The field "${param}" has half of a surrogate pair. Send whole characters.`
  throw new ApiError(400, 'invalid_field', message, { param })
}

function withoutOwnFields(body: CompletionRequest): CompletionRequest {
  const { character: _character, user_name: _userName, ...rest } = body
  return rest
}

/** The parameters that were sent, with a value, to a model that cannot honour them. */
function ignoredParameters(body: CompletionRequest, model: Model): readonly string[] {
  return Object.entries(body)
    .filter(([name, value]) => value != null && model.ignoredParameters.has(name))
    .map(([name]) => name)
}
