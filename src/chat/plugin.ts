import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import { type Guard, requireScope } from '../access/guard.ts'
import type { CharacterLibrary } from '../characters/library.ts'
import { cast, type UnknownCharacters } from '../characters/persona.ts'
import type { PromptSettings } from '../characters/prompt.ts'
import { ApiError, toApiError } from '../errors.ts'
import { answers } from '../http/openapi-fields.ts'
import { unknownRoute } from '../http/unknown-route.ts'
import type { Candidate } from '../models/candidate.ts'
import type { ModelListing, ModelRegistry } from '../models/registry.ts'
import { ChatError, Completion, CompletionRequest } from './completion.ts'
import { Exchange } from './exchange.ts'
import { checkMessages } from './messages.ts'
import { clientGone, sendEvents } from './reply.ts'
import { UsageWatch } from './usage.ts'

/** What the chat group is built from. */
export interface ChatOptions {
  readonly guard: Guard
  readonly models: ModelRegistry
  readonly library: CharacterLibrary
  readonly prompt: PromptSettings
  readonly characters: UnknownCharacters
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
      const route = models.resolve(body.model)
      const { persona, header } = cast(body, library, options.characters)
      if (header !== undefined) reply.header('x-character', header)
      request.facts['model'] = route.name

      const exchange = new Exchange(body, persona, options.prompt)
      const ask = (candidate: Candidate) => exchange.requestFor(candidate)
      const tellOf = ({ candidate, retries }: { candidate: Candidate; retries: number }) => {
        const { name } = candidate.traits
        request.facts['model_used'] = name
        request.facts['retries'] = retries
        if (reply.sent) return
        reply.header('x-model', encodeURIComponent(name))
        const ignored = exchange.ignoredBy(candidate.model)
        if (ignored !== undefined) reply.header('x-ignored-params', ignored)
      }

      const signal = clientGone(reply)
      try {
        if (body.stream === true) {
          const usage = body.stream_options?.include_usage === true ? new UsageWatch() : null
          const opening = route
            .open((candidate) => {
              const request = ask(candidate)
              usage?.begin(request.body.messages)
              return request
            }, signal)
            .then((opened) => {
              tellOf(opened)
              return opened.events
            })
          await sendEvents(reply, opening, {
            usage,
            keepaliveMs: options.sseKeepaliveMs,
            onEnd: (state, failure) => {
              request.facts['state'] = state
              if (failure) request.log.error({ request_id: request.id, err: failure.cause ?? failure }, failure.code)
            },
          })
          return reply
        }
        const answer = await route.complete(ask, signal)
        tellOf(answer)
        request.facts['state'] = answer.completion.choices[0]?.finish_reason ?? 'stop'
        return reply.type('application/json; charset=utf-8').send(answer.bytes ?? JSON.stringify(answer.completion))
      } catch (thrown) {
        const error = toApiError(thrown)
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
