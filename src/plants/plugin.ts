import { Readable } from 'node:stream'
import bearerAuth from '@fastify/bearer-auth'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf, type Guard, refuseTwoCredentials, requireScope } from '../access/guard.ts'
import { unauthorized } from '../access/refusals.ts'
import { ApiError, plantErrorBody } from '../errors.ts'
import { errorHandler } from '../http/errors.ts'
import { answers } from '../http/openapi-fields.ts'
import { standardHeaders } from '../limits/headers.ts'
import { tellRequestsLeft } from '../limits/hooks.ts'
import type { Limits } from '../limits/limits.ts'
import { readCursor } from './cursor.ts'
import { readIdempotency } from './idempotency.ts'
import type { PageCache } from './page-cache.ts'
import { digestOf, hasVersion, jsonArray, jsonType, nextLink, sendPage } from './page-replies.ts'
import {
  checkedPlant,
  checkedText,
  NewPlant,
  Plant,
  PlantError,
  type PlantPage,
  type PlantStore,
  toReply,
} from './plant.ts'

/** What the plants group is built from. */
export interface PlantsOptions {
  readonly store: PlantStore
  readonly guard: Guard
  /** Keeps ready pages. */
  readonly pages: PageCache
  /** Bytes. */
  readonly bodyLimit: number
  /** What holds where neither the key nor its account has a limit. */
  readonly limits?: Limits
}

/** Without a limit, a list up to this long is sent whole; a longer one is streamed. */
const wholeListLength = 1000

const ListQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      description: 'Maximum number of plants to return; all of them without it.',
      examples: [10],
      minimum: 1,
      maximum: 2 ** 31 - 1,
      format: 'int32',
      errorMessage: 'send a whole number from 1 to 2147483647, once',
    }),
  ),
  tag: Type.Optional(
    Type.String({ description: 'Only plants with this tag.', examples: ['aroid'], errorMessage: 'send it once' }),
  ),
  after: Type.Optional(
    Type.String({
      description: 'Where to go on: taken from the `Link` header of the reply before.',
      errorMessage: 'send it once',
    }),
  ),
})

const PlantPath = Type.Object({
  id: Type.Integer({
    examples: [1],
    minimum: Number.MIN_SAFE_INTEGER,
    maximum: Number.MAX_SAFE_INTEGER,
    errorMessage: 'send a whole number from -(2^53-1) to 2^53-1',
  }),
})

const security: readonly Readonly<Record<string, readonly string[]>>[] = [{ bearer: [] }]
/** What can go wrong on every route of the group. */
const refusals = [400, 401, 403, 429, 500, 503]

/** The plant store interface (spec, sections 4.1 and 4.2), and reading and removing one plant. */
export const plantsPlugin: FastifyPluginAsyncTypebox<PlantsOptions> = async (
  app,
  { store, guard, pages, bodyLimit, limits = {} },
) => {
  app.setErrorHandler(errorHandler(plantErrorBody))
  app.setNotFoundHandler(() => {})
  await app.register(bearerAuth, {
    keys: [],
    specCompliance: 'rfc6749',
    addHook: false,
    verifyErrorLogLevel: 'trace',
    auth: async (key, request) => {
      await guard.admit(request, key, standardHeaders)
      return true
    },
  })
  app.addHook('onRequest', (request, reply, done) => {
    refuseTwoCredentials(request)
    const again = guard.admitAgain(request, standardHeaders)
    if (again === true) return done()
    if (again) {
      again.then(() => done(), done)
      return
    }
    app.verifyBearerAuth?.(request, reply, (error) => {
      // Its own complaint is that there is no bearer token; whatever else fails on the way is no fault of the caller.
      const isNoToken = error && 'code' in error && String(error.code).startsWith('FST_BEARER_AUTH_')
      done(
        isNoToken
          ? unauthorized('missing_token', 'Send your token in the header Authorization: Bearer YOUR_TOKEN.')
          : error,
      )
    })
  })
  app.addHook('onRequest', tellRequestsLeft(standardHeaders))

  const sendAll = (request: FastifyRequest, reply: FastifyReply, found: AsyncIterable<PlantPage>): void => {
    const list = Readable.from(jsonArray(found))
    const ending = new AbortController()
    ending.signal.addEventListener('abort', () => list.destroy(ending.signal.reason))
    reply.raw.once('close', guard.watch(request, ending))
    reply.header('content-type', jsonType).send(list)
  }

  app.get(
    '',
    {
      onRequest: requireScope('plants:read'),
      schema: {
        operationId: 'listPlants',
        summary: 'List plants',
        description:
          'Returns the plants that the caller has access to: its own, ordered by id, then those that other accounts share with it, by account and id. With a limit and more to come, the `Link` header has the address of the next page.',
        tags: ['plants'],
        security,
        querystring: ListQuery,
        response: answers({ 200: Type.Array(Plant) }, PlantError, refusals),
      },
    },
    // Answers by `send` alone: for a promise Fastify would listen to the whole reply once more.
    (request, reply) => {
      const account = callerOf(request).account.id
      const { limit, tag, after } = request.query
      const known = request.headers['if-none-match']
      // Read before the plants: what changes in between makes the tag too old, never too new.
      const version = store.version(account)
      if (version !== null) {
        reply.header('etag', `W/"${version}"`)
        if (hasVersion(known, version)) return void reply.code(304).send()
        const ready = pages.get(account, request.url, version)
        if (ready) return sendPage(reply, ready)
      }
      const read = async (): Promise<void> => {
        const query = {
          ...(tag === undefined ? {} : { tag: checkedText('tag', tag) }),
          ...(after === undefined ? {} : { after: readCursor(after) }),
        }
        const { json, last } = await store.list(account, query, limit ?? wholeListLength)
        if (last && limit === undefined) return sendAll(request, reply, store.listAll(account, query))
        const page = last && limit !== undefined ? { text: json, link: nextLink(last, limit, tag) } : { text: json }
        if (version !== null) pages.set(account, request.url, version, page)
        else {
          const digest = digestOf(page)
          reply.header('etag', `W/"${digest}"`)
          if (hasVersion(known, digest)) return void reply.code(304).send()
        }
        sendPage(reply, page)
      }
      read().catch((error: unknown) => reply.send(error))
    },
  )

  app.post(
    '',
    {
      onRequest: requireScope('plants:write'),
      bodyLimit,
      schema: {
        operationId: 'addPlant',
        summary: 'Create a plant',
        description: 'Adds a plant to the store. The reply comes when the plant is on disk.',
        tags: ['plants'],
        security,
        body: NewPlant,
        response: answers({ 200: Plant }, PlantError, [...refusals, 409, 413, 415, 422, 507]),
      },
    },
    async (request, reply) => {
      const idempotency = readIdempotency(request.headers['idempotency-key'], request.body)
      const caller = callerOf(request)
      const limit = caller.limits.plants ?? caller.account.limits.plants ?? limits.plants
      const { plant, isReplay } = await store.create(caller.account.id, checkedPlant(request.body), idempotency, limit)
      reply.header('location', `/plants/${plant.id}`)
      if (isReplay) reply.header('idempotency-replayed', 'true')
      return toReply(plant)
    },
  )

  app.get(
    '/:id',
    {
      onRequest: requireScope('plants:read'),
      schema: {
        operationId: 'getPlant',
        summary: 'Get one of your plants',
        tags: ['plants'],
        security,
        params: PlantPath,
        response: answers({ 200: Plant }, PlantError, [...refusals, 404]),
      },
    },
    async (request) => {
      const plant = await store.find(callerOf(request).account.id, request.params.id)
      if (!plant) throw unknownPlant()
      return toReply(plant)
    },
  )

  app.delete(
    '/:id',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'deletePlant',
        summary: 'Delete one of your plants',
        tags: ['plants'],
        security,
        params: PlantPath,
        response: answers({ 204: Type.Null({ description: 'It is gone.' }) }, PlantError, [...refusals, 404, 507]),
      },
    },
    async (request, reply) => {
      if (!(await store.remove(callerOf(request).account.id, request.params.id))) throw unknownPlant()
      return reply.code(204).send()
    },
  )
}

function unknownPlant(): ApiError {
  return new ApiError(404, 'unknown_plant', 'You have no plant with this id. GET /plants lists those you have.')
}
