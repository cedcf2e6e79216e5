import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { Key } from '../access/access.ts'
import { callerOf, type Guard, requireScope } from '../access/guard.ts'
import type { CharacterStore, ListedCharacter, Origin } from '../characters/library/character.ts'
import type { CharacterLibrary } from '../characters/library/library.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { unknownRoute } from '../http/unfit-request.ts'
import { ChatError } from '../openai/completion.ts'
import { unixSeconds } from '../time.ts'
import { playedModelId } from './played-model.ts'
import type { ModelListing, ModelRegistry } from './registry.ts'

/** Options of the routes of models. */
export interface ModelsOptions {
  readonly guard: Guard
  readonly models: ModelRegistry
  readonly library: Pick<CharacterLibrary, 'find' | 'list' | 'names'>
  readonly store: Pick<CharacterStore, 'find'>
  /** True for the `/v1` alias, which is not in the OpenAPI document. */
  readonly isAlias?: boolean
}

const ListedModel = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('model'),
    created: Type.Integer({ description: 'Unix seconds.' }),
    owned_by: Type.String(),
    description: Type.Optional(Type.String({ description: 'Only understudies have a description.' })),
  },
  { title: 'Model', examples: [{ id: 'gpt', object: 'model', created: 1795132800, owned_by: 'openai' }] },
)

const ModelList = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(ListedModel),
    has_more: Type.Boolean({ description: 'Whether there are more characters than the list shows.' }),
  },
  { title: 'ModelList' },
)

/** The most characters in the list. Client programs show the whole list in one menu. */
const maxCharacters = 1000

/** The `owned_by` of a character in the list, by the origin of the character. */
const owners: Readonly<Record<Origin, string>> = { account: 'account', folder: 'operator', starter: 'conservatory' }

/** The routes `GET /models` and `GET /models/:id` of OpenAI's API. Characters are listed as models too. */
export const modelsPlugin: FastifyPluginAsyncTypebox<ModelsOptions> = async (
  app,
  { guard, models, library, store, isAlias },
) => {
  const hide = isAlias === true
  const openedAt = unixSeconds()

  app.addHook('onRequest', guard.admitApiKey)
  app.addHook('onRequest', requireScope('chat'))

  const listed = ({ id, ownedBy, description }: ModelListing, created = openedAt) => ({
    id,
    object: 'model' as const,
    created,
    owned_by: ownedBy,
    ...(description === undefined ? {} : { description }),
  })
  const played = ({ name, origin, created }: ListedCharacter) =>
    listed({ id: playedModelId(name), ownedBy: owners[origin] }, created)

  app.get(
    '/models',
    {
      schema: {
        hide,
        operationId: 'listModels',
        summary: 'List models',
        description:
          'Lists the models that your key may use, without the understudies that fail on purpose (see `LIST_MISBEHAVING`). If your key may use the model `default`, up to 1,000 characters follow as `character/NAME`. Such a model is the character, played on `default`; `MODEL/character/NAME` plays the character on another model. `understudy` is a test double first: a stand-in without a neural network, which plays a character from its card, always with the same answers.',
        tags: ['chat'],
        security,
        response: answers({ 200: ModelList }, ChatError, refusals),
      },
    },
    async (request) => {
      const caller = callerOf(request)
      const characters = models.mayUseDefault(caller)
        ? await library.list(caller.account.id, '', maxCharacters + 1)
        : []
      const named = (await models.list(caller)).map((model) => listed(model))
      const names = new Set(named.map(({ id }) => id))
      // If a model and a character have the same id, the id means the model.
      const others = characters.slice(0, maxCharacters).map(played)
      const data = [...named, ...others.filter(({ id }) => !names.has(id))]
      return { object: 'list' as const, data, has_more: characters.length > maxCharacters }
    },
  )

  const describe = async (id: string, caller: Key) => {
    if (id === '') throw unknownRoute(app)
    const requested = models.findRequested(id, caller)
    if (requested?.character === null) return listed(models.listing(requested.route))
    const found = requested && (await library.find(caller.account.id, requested.character))
    if (!found) throw models.notFound(id, caller, await library.names(caller.account.id))
    const { name, origin } = found
    const stored = origin === 'account' ? await store.find(caller.account.id, name, 'exact') : undefined
    return listed({ id, ownedBy: owners[origin] }, stored?.created)
  }

  app.get(
    '/models/:id',
    {
      schema: {
        hide,
        operationId: 'getModel',
        summary: 'Get a model',
        description:
          'Returns a model by its id, even if the list does not show it, or a character as a model (`character/Fern`). An id that your key may not use is a 404.',
        tags: ['chat'],
        security,
        params: Type.Object({ id: Type.String({ examples: ['understudy'] }) }),
        response: answers({ 200: ListedModel }, ChatError, [...refusals, 404]),
      },
    },
    async (request) => describe(request.params.id, callerOf(request)),
  )
  // Ids may contain slashes, and some clients do not encode slashes.
  app.get('/models/*', { schema: { hide: true, params: Type.Object({ '*': Type.String() }) } }, async (request) =>
    describe(request.params['*'], callerOf(request)),
  )
}
