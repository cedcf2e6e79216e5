import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import { callerOf, requireScope } from '../access/guard.ts'
import { plantsAllowed } from '../access/limits-in-force.ts'
import { plantsPrefix } from '../http/errors.ts'
import { setIgnoredHeader } from '../http/ignored-params.ts'
import { answers } from '../http/openapi-fields.ts'
import { Cursors } from './cursor.ts'
import { openPlantsGroup } from './group.ts'
import { readIdempotency } from './idempotency.ts'
import { type Includes, shownPlants } from './includes.ts'
import { listRoute } from './list-route.ts'
import { manyRoutes } from './many-routes.ts'
import { onePlantRoutes } from './one-plant-routes.ts'
import type { PlantsOptions } from './options.ts'
import { checkedPlant, toReply } from './plant.ts'
import { includedIn, isBare, NewPlant, OnePlantQuery, Plant, PlantError, refusals, security } from './schemas.ts'

/** The routes of the plant store: listing and adding plants, and reading, changing and removing one plant. */
export const plantsPlugin: FastifyPluginAsyncTypebox<PlantsOptions> = async (app, options) => {
  const { store, guard, bodyLimit, limits, includes } = options
  const plantSchema = includes ? withIncluded(includes) : Plant
  await openPlantsGroup(app, guard)
  listRoute(app, { ...options, plantSchema, cursors: new Cursors(await store.cursorKey()) })
  onePlantRoutes(app, { ...options, plantSchema })
  await manyRoutes(app, { ...options, plantSchema })

  app.post(
    '',
    {
      onRequest: requireScope('plants:write'),
      bodyLimit,
      schema: {
        operationId: 'addPlant',
        summary: 'Create a plant',
        description:
          'Adds a plant to the store. The reply comes when the plant is on disk. With an `Idempotency-Key`, a repeated request adds the plant once. Unknown fields are ignored, and named in the reply header `x-ignored-params`.',
        tags: ['plants'],
        security,
        querystring: OnePlantQuery,
        body: NewPlant,
        response: answers({ 200: plantSchema }, PlantError, [...refusals, 409, 413, 415, 422, 507]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply, { query: OnePlantQuery, body: NewPlant })
      const key = request.headers['idempotency-key']
      const idempotency = key === undefined ? undefined : readIdempotency(key, request.body)
      const caller = callerOf(request)
      const limit = plantsAllowed(caller, limits)
      const added = await store.create(caller.account.id, checkedPlant(request.body), idempotency, limit)
      const { plant, created, isReplay } = added
      reply.header('location', `${plantsPrefix}/${plant.id}`)
      if (isReplay) reply.header('idempotency-replayed', 'true')
      const { include } = request.query
      if (isBare(include)) return toReply(plant, include === 'id')
      const detailed = { ...plant, created, updated: created, version: 1 }
      const [shown] = await shownPlants(includes, caller.account.id, [detailed], includedIn(include))
      return shown
    },
  )
}

/** The schema of plants with the fields that another room adds. */
function withIncluded({ schemas: { care, due } }: Includes): typeof Plant {
  const { properties, ...options } = Plant
  return Type.Object({ ...properties, care: Type.Optional(care), due: Type.Optional(due) }, options)
}
