import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { Key } from '../access/access.ts'
import { callerOf, type Guard, requireScope } from '../access/guard.ts'
import type { Character } from '../characters/character.ts'
import type { CharacterLibrary } from '../characters/library.ts'
import type { Lorebook } from '../characters/lorebook.ts'
import { cast, type UnknownCharacters } from '../characters/persona.ts'
import type { PromptSettings } from '../characters/prompt.ts'
import { ApiError, toApiError } from '../errors.ts'
import { answers } from '../http/openapi-fields.ts'
import { unknownRoute } from '../http/unknown-route.ts'
import type { Candidate } from '../models/candidate.ts'
import type { ModelListing, ModelRegistry } from '../models/registry.ts'
import { ChatError, Completion, CompletionRequest } from './completion.ts'
import { droppedHeader, Exchange } from './exchange.ts'
import { checkMessages } from './messages.ts'
import { PromptReceipt, receiptOf } from './receipt.ts'
import { clientGone, sendEvents } from './reply.ts'
import { UsageWatch } from './usage.ts'

/** What the chat group is built from. */
export interface ChatOptions {
  readonly guard: Guard
  readonly models: ModelRegistry
  readonly library: CharacterLibrary
  readonly prompt: PromptSettings
  readonly characters: UnknownCharacters
  /** Lorebooks for every character; none without it. */
  readonly worldBooks?: () => readonly Lorebook[]
  /** Whether a caller may read the texts of a character's card; all may without it. */
  readonly mayRead?: (caller: Key, character: Character) => boolean
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
      const { persona, header } = await cast(body, library, options.characters, callerOf(request).account.id)
      if (header !== undefined) reply.header('x-character', header)
      request.facts['model'] = route.name

      const making = { settings: options.prompt, worldBooks: options.worldBooks?.() ?? [] }
      const exchange = new Exchange(body, persona, making)
      const ask = (candidate: Candidate) => {
        const asked = exchange.ask(candidate)
        return asked instanceof Promise ? asked.then(({ request }) => request) : asked.request
      }
      const tellOf = ({ candidate, retries }: { candidate: Candidate; retries: number }) => {
        const { name } = candidate.traits
        request.facts['model_used'] = name
        request.facts['retries'] = retries
        if (reply.sent) return
        reply.header('x-model', encodeURIComponent(name))
        const ignored = exchange.ignoredBy(candidate.model)
        if (ignored !== undefined) reply.header('x-ignored-params', ignored)
        const dropped = exchange.droppedFor(candidate)
        if (dropped !== undefined) reply.header('x-dropped', dropped)
      }

      const signal = clientGone(reply)
      try {
        if (body.stream === true) {
          const usage = body.stream_options?.include_usage === true ? new UsageWatch() : null
          const opening = route
            .open(async (candidate) => {
              const request = await ask(candidate)
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

  app.post(
    '/chat/prompt',
    {
      bodyLimit: options.bodyLimit,
      schema: {
        hide,
        operationId: 'createChatPrompt',
        summary: 'Show what a model would be told',
        description:
          'Takes the same body as a completion and asks no model: the exact messages, the tokens of each part, which lore fired, what was left out and why.',
        tags: ['chat'],
        security,
        body: CompletionRequest,
        response: answers({ 200: PromptReceipt }, ChatError, [...refusals, 400, 404, 413, 415]),
      },
    },
    async (request, reply) => {
      const { body } = request
      checkWellFormed('model', body.model)
      checkMessages(body.messages)
      const route = models.resolve(body.model)
      const casting = await cast(body, library, options.characters, callerOf(request).account.id)
      if (casting.header !== undefined) reply.header('x-character', casting.header)
      const [candidate] = route.candidates
      if (!candidate) throw new Error('the route has no candidate')
      const making = { settings: options.prompt, worldBooks: options.worldBooks?.() ?? [] }
      const asked = await new Exchange(body, casting.persona, making).ask(candidate)
      const { character } = casting
      const isShown = !character || (options.mayRead?.(callerOf(request), character) ?? true)
      reply.header('x-model', encodeURIComponent(candidate.traits.name))
      const dropped = droppedHeader(asked.composition.dropped)
      if (dropped !== undefined) reply.header('x-dropped', dropped)
      return await receiptOf({
        model: route.name,
        upstreamId: candidate.traits.upstreamId,
        casting,
        body,
        asked,
        isShown,
      })
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
