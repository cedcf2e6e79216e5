import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import { callerOf, type Guard, requireScope } from '../access/guard.ts'
import type { ModelUser } from '../access/model-lists.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { unknownRoute } from '../http/unfit-request.ts'
import { ChatError } from '../openai/completion.ts'
import { unixSeconds } from '../time.ts'
import type { ModelListing, ModelRegistry } from './registry.ts'

/** What the list of models is built from. */
export interface ModelsOptions {
  readonly guard: Guard
  readonly models: ModelRegistry
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

/** The list of models, as OpenAI's clients read it. */
export const modelsPlugin: FastifyPluginAsyncTypebox<ModelsOptions> = async (app, { guard, models, isAlias }) => {
  const hide = isAlias === true
  const openedAt = unixSeconds()

  app.addHook('onRequest', guard.admitApiKey)
  app.addHook('onRequest', requireScope('chat'))

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
          'Those that your key may use. `understudy` is the embedded stand-in: no neural network; it plays a character from its card, the same way every time.',
        tags: ['chat'],
        security,
        response: answers({ 200: ModelList }, ChatError, refusals),
      },
    },
    async (request) => {
      const data = models.list(callerOf(request)).map(listed)
      return { object: 'list' as const, data, has_more: false as const }
    },
  )

  const describe = (id: string, user: ModelUser) => {
    if (id === '') throw unknownRoute(app)
    const listing = models.list(user).find((candidate) => candidate.id === id)
    return listed(listing ?? { id: models.resolve(id, user).name, ownedBy: 'upstream' })
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
    async (request) => describe(request.params.id, callerOf(request)),
  )
  // Ids may hold slashes, and not every client encodes them.
  app.get('/models/*', { schema: { hide: true, params: Type.Object({ '*': Type.String() }) } }, async (request) =>
    describe(request.params['*'], callerOf(request)),
  )
}
