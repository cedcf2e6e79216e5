import { hash } from 'node:crypto'
import { Readable } from 'node:stream'
import { setImmediate as endOfTurn } from 'node:timers/promises'
import bearerAuth from '@fastify/bearer-auth'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'
import { callerOf, type Guard, refuseTwoCredentials, requireScope } from '../access/guard.ts'
import { unauthorized } from '../access/refusals.ts'
import { ApiError, plantErrorBody } from '../errors.ts'
import { errorHandler } from '../http/errors.ts'
import { answers } from '../http/openapi-fields.ts'
import { standardHeaders } from '../limits/headers.ts'
import type { Limits } from '../limits/limits.ts'
import { readCursor, writeCursor } from './cursor.ts'
import { readIdempotency } from './idempotency.ts'
import type { Page, PageCache } from './page-cache.ts'
import {
  checkedPlant,
  checkedText,
  NewPlant,
  Plant,
  PlantError,
  type PlantStore,
  type PlantsVersion,
  type StoredPlant,
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

const jsonType = 'application/json; charset=utf-8'

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
  app.addHook('onRequest', (request, _reply, done) => {
    refuseTwoCredentials(request)
    done()
  })
  app.addHook('onRequest', (request, reply, done) => {
    app.verifyBearerAuth?.(request, reply, (error) => {
      if (request.requestsLeft !== null) reply.headers(standardHeaders(request.requestsLeft))
      // Its own complaint is that there is no bearer token; whatever else fails on the way is no fault of the caller.
      const isNoToken = error && 'code' in error && String(error.code).startsWith('FST_BEARER_AUTH_')
      done(
        isNoToken
          ? unauthorized('missing_token', 'Send your token in the header Authorization: Bearer YOUR_TOKEN.')
          : error,
      )
    })
  })

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
    async (request, reply) => {
      const account = callerOf(request).account.id
      const { limit, tag, after } = request.query
      const known = request.headers['if-none-match']
      const question = JSON.stringify([limit, tag, after])
      // Read before the plants: what changes in between makes the tag too old, never too new.
      const version = store.version(account)
      if (version !== null) {
        reply.header('etag', `W/"${version}"`)
        if (hasVersion(known, version)) return reply.code(304).send()
        const ready = pages.get(account, question, version)
        if (ready) return sendPage(reply, ready)
      }
      const query = {
        ...(tag === undefined ? {} : { tag: checkedText('tag', tag) }),
        ...(after === undefined ? {} : { after: readCursor(after) }),
      }
      const pageLength = limit ?? wholeListLength
      const found = await store.list(account, query, pageLength + 1)
      const isLonger = found.length > pageLength
      if (isLonger && limit === undefined) {
        const list = Readable.from(jsonArray(store.listAll(account, query)))
        const ending = new AbortController()
        ending.signal.addEventListener('abort', () => list.destroy(ending.signal.reason))
        reply.raw.once('close', guard.watch(request, ending))
        return reply.type(jsonType).send(list)
      }
      const shown = isLonger ? found.slice(0, pageLength) : found
      const text = JSON.stringify(shown.map(toReply))
      const page = isLonger && limit !== undefined ? { text, link: nextLink(shown, limit, tag) } : { text }
      if (version !== null) pages.set(account, question, version, page)
      else {
        const digest = digestOf(page)
        reply.header('etag', `W/"${digest}"`)
        if (hasVersion(known, digest)) return reply.code(304).send()
      }
      return sendPage(reply, page)
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

function toReply({ name, tag }: StoredPlant): Plant {
  return tag === undefined ? { name } : { name, tag }
}

/**
 * Sends a page when the event loop's turn ends, right after the other pages of that turn: a reader that works through
 * one when the next arrives need not be woken for each, which costs more than all the rest of such a request.
 */
function sendPage(reply: FastifyReply, { text, link }: Page): FastifyReply {
  reply.type(jsonType)
  if (link !== undefined) reply.header('link', link)
  setImmediate(sendText, reply, text)
  return reply
}

function sendText(reply: FastifyReply, text: string): void {
  reply.send(text)
}

/** Whether an `If-None-Match` header names this version, or any (RFC 9110, section 13.1.2: weakly compared). */
function hasVersion(header: string | undefined, version: PlantsVersion): boolean {
  if (header === undefined) return false
  return header.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === `"${version}"`)
}

/** The version of a page where the store knows none: of all that goes out, the address of the next page too. */
function digestOf({ text, link = '' }: Page): PlantsVersion {
  return hash('sha256', `${link}\n${text}`, 'base64url')
}

function unknownPlant(): ApiError {
  return new ApiError(404, 'unknown_plant', 'You have no plant with this id. GET /plants lists those you have.')
}

/** The `Link` header (RFC 8288) of a page that others follow. */
function nextLink(page: readonly StoredPlant[], limit: number, tag: string | undefined): string {
  const last = page.at(-1)
  const query = new URLSearchParams({
    limit: String(limit),
    ...(tag === undefined ? {} : { tag }),
    ...(last ? { after: writeCursor(last) } : {}),
  })
  return `</plants?${query}>; rel="next"`
}

/** Batches of plants as the text of one JSON array, a piece to a batch. */
async function* jsonArray(batches: AsyncIterable<readonly StoredPlant[]>): AsyncIterable<string> {
  let separator = '['
  for await (const batch of batches) {
    yield separator + batch.map((plant) => JSON.stringify(toReply(plant))).join(',')
    separator = ','
    // A reader that keeps up takes each piece at once, and everybody else would wait until it has them all.
    await endOfTurn()
  }
  yield separator === '[' ? '[]' : ']'
}
