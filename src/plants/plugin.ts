import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import { callerOf, type Guard, requireScope } from '../access/guard.ts'
import { plantsAllowed } from '../access/limits-in-force.ts'
import { plantsPrefix } from '../http/errors.ts'
import { setIgnoredHeader } from '../http/ignored-params.ts'
import { answers, type TypedInstance } from '../http/openapi-fields.ts'
import type { Limits } from '../limit-values.ts'
import { Cursors } from './cursor.ts'
import { openPlantsGroup } from './group.ts'
import { readIdempotency } from './idempotency.ts'
import { listRoute } from './list-route.ts'
import type { PageCache } from './page-cache.ts'
import { sendPlant } from './page-replies.ts'
import { checkedPlant, type PlantStore, type StoredPlant, toReply } from './plant.ts'
import { unknownPlant } from './policy.ts'
import { NewPlant, OnePlantQuery, Plant, PlantError, PlantPath, refusals, security } from './schemas.ts'

/** The objects and settings that the routes of plants use. */
export interface PlantsOptions {
  readonly store: PlantStore
  readonly guard: Guard
  /** The cache of pages. */
  readonly pages: PageCache
  /** The most bytes of a request's body. */
  readonly bodyLimit: number
  /** The limits of accounts without limits of their own. */
  readonly limits: Limits
}

/** The routes of the plant store: listing and adding plants, and reading and removing one plant. */
export const plantsPlugin: FastifyPluginAsyncTypebox<PlantsOptions> = async (
  app,
  { store, guard, pages, bodyLimit, limits },
) => {
  await openPlantsGroup(app, guard)
  listRoute(app, { store, guard, pages, cursors: new Cursors(await store.cursorKey()) })

  app.post(
    '',
    {
      onRequest: requireScope('plants:write'),
      bodyLimit,
      schema: {
        operationId: 'addPlant',
        summary: 'Create a plant',
        description:
          'Adds a plant to the store. The reply comes when the plant is on disk. Unknown fields are ignored, and named in the reply header `x-ignored-params`.',
        tags: ['plants'],
        security,
        querystring: OnePlantQuery,
        body: NewPlant,
        response: answers({ 200: Plant }, PlantError, [...refusals, 409, 413, 415, 422, 507]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply, { query: OnePlantQuery, body: NewPlant })
      const key = request.headers['idempotency-key']
      const idempotency = key === undefined ? undefined : readIdempotency(key, request.body)
      const caller = callerOf(request)
      const limit = plantsAllowed(caller, limits)
      const { plant, isReplay } = await store.create(caller.account.id, checkedPlant(request.body), idempotency, limit)
      reply.header('location', `${plantsPrefix}/${plant.id}`)
      if (isReplay) reply.header('idempotency-replayed', 'true')
      return toReply(plant, request.query.include === 'id')
    },
  )

  addPlantRoutes(app, store)
}

function addPlantRoutes(app: TypedInstance, store: PlantStore): void {
  app.get(
    '/:id',
    {
      onRequest: requireScope('plants:read'),
      schema: {
        operationId: 'getPlant',
        summary: 'Get one of your plants',
        description:
          'Returns a plant of your own account by its id. A plant that another account shares with you is a 404, because each account has its own ids.',
        tags: ['plants'],
        security,
        params: PlantPath,
        querystring: OnePlantQuery,
        response: answers({ 200: Plant }, PlantError, [...refusals, 404]),
      },
    },
    // As in the route of lists: this handler returns no promise.
    (request, reply) => {
      setIgnoredHeader(request, reply, { query: OnePlantQuery })
      const send = (plant: StoredPlant | undefined) => {
        if (!plant) throw unknownPlant()
        sendPlant(reply, plant, request.query.include === 'id')
      }
      store
        .find(callerOf(request).account.id, request.params.id)
        .then(send)
        .catch((error: unknown) => reply.send(error))
    },
  )

  app.delete(
    '/:id',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'deletePlant',
        summary: 'Delete one of your plants',
        description:
          'Deletes a plant of your own account by its id. A plant that another account shares with you is a 404.',
        tags: ['plants'],
        security,
        params: PlantPath,
        response: answers({ 204: Type.Null({ description: 'The plant was deleted.' }) }, PlantError, [
          ...refusals,
          404,
          507,
        ]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply)
      if (!(await store.remove(callerOf(request).account.id, request.params.id))) throw unknownPlant()
      return reply.code(204).send()
    },
  )
}
