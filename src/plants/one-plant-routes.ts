import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf, requireScope } from '../access/guard.ts'
import { ApiError, invalidField } from '../errors.ts'
import { allowsChange, matchesTag } from '../http/etag.ts'
import { setIgnoredHeader } from '../http/ignored-params.ts'
import { answers, type TypedInstance } from '../http/openapi-fields.ts'
import { changePlant, type DetailedPlant, readDetailed } from './details.ts'
import { shownPlants } from './includes.ts'
import type { RouteOptions } from './options.ts'
import { sendPage } from './page-replies.ts'
import { toReply } from './plant.ts'
import { unknownPlant } from './policy.ts'
import {
  type Included,
  includedIn,
  isBare,
  NotModified,
  OnePlantQuery,
  PlantChange,
  PlantError,
  PlantPath,
  refusals,
  security,
} from './schemas.ts'

const mergePatch = 'application/merge-patch+json'

/** Registers the routes of one plant. */
export function onePlantRoutes(app: TypedInstance, options: RouteOptions): void {
  getRoute(app, options)
  patchRoute(app, options)
  deleteRoute(app, options)
}

function getRoute(app: TypedInstance, { store, scripts, includes, plantSchema }: RouteOptions): void {
  app.get(
    '/:id',
    {
      onRequest: requireScope('plants:read'),
      schema: {
        operationId: 'getPlant',
        summary: 'Get one of your plants',
        description:
          'Returns a plant of your own account by its id. A plant that another account shares with you is a 404, because each account has its own ids. The `ETag` has the version of the plant, and `include` behind it: sent as `If-None-Match`, it gets a 304 without a body while nothing has changed. Replies with `care` or `due` have none, because they change with the date.',
        tags: ['plants'],
        security,
        params: PlantPath,
        querystring: OnePlantQuery,
        response: answers({ 200: plantSchema, 304: NotModified }, PlantError, [...refusals, 404]),
      },
    },
    // As in the route of lists: this handler returns no promise.
    (request, reply) => {
      setIgnoredHeader(request, reply, { query: OnePlantQuery })
      const account = callerOf(request).account.id
      const { id } = request.params
      const { include } = request.query
      const sendBare = (plant: Awaited<ReturnType<typeof store.find>>) => {
        if (!plant) throw unknownPlant()
        if (sendIfKnown(request, reply, plant.version, include)) return
        sendPage(reply, { text: JSON.stringify(toReply(plant, include === 'id')) })
      }
      const sendDetailed = async (plants: ReadonlyMap<number, DetailedPlant>) => {
        const plant = plants.get(id)
        if (!plant) throw unknownPlant()
        const included = includedIn(include)
        if (hasTag(included) && sendIfKnown(request, reply, plant.version, include)) return
        const [shown] = await shownPlants(includes, account, [plant], included)
        sendPage(reply, { text: JSON.stringify(shown) })
      }
      const sent = isBare(include)
        ? store.find(account, id).then(sendBare)
        : scripts.read(() => readDetailed(account, [id])).then(sendDetailed)
      sent.catch((error: unknown) => reply.send(error))
    },
  )
}

function patchRoute(app: TypedInstance, { store, bodyLimit, includes, plantSchema }: RouteOptions): void {
  app.patch(
    '/:id',
    {
      onRequest: [
        (request, reply, done) => {
          reply.header('accept-patch', `${mergePatch}, application/json`)
          // Both types have the same JSON, so there is one parser.
          const type = request.headers['content-type']
          if (type?.split(';', 1)[0]?.trim().toLowerCase() === mergePatch) {
            request.headers['content-type'] = 'application/json'
          }
          done()
        },
        requireScope('plants:write'),
      ],
      bodyLimit,
      schema: {
        operationId: 'changePlant',
        summary: 'Change one of your plants',
        description:
          'Changes a plant of your own account by a JSON Merge Patch (RFC 7396): fields that you leave out stay as they are, and `null` removes a field. The body may have the type `application/merge-patch+json`, too. The reply comes when the change is on disk. With `If-Match`, the plant is changed only in that version; otherwise the reply is a 412. A patch that changes nothing leaves the version as it is. Unknown fields are ignored, and named in the reply header `x-ignored-params`.',
        tags: ['plants'],
        security,
        params: PlantPath,
        querystring: OnePlantQuery,
        body: PlantChange,
        response: answers({ 200: plantSchema }, PlantError, [...refusals, 404, 412, 413, 415, 507]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply, { query: OnePlantQuery, body: PlantChange })
      if (Object.hasOwn(request.body, 'id')) throw invalidField('id', 'cannot be changed; leave it out')
      const account = callerOf(request).account.id
      const { params, body } = request
      const plant = await store.change(account, () => changePlant(account, params.id, body, checkOf(request)))
      const { include } = request.query
      const included = includedIn(include)
      if (hasTag(included)) reply.header('etag', `"${tagOf(plant.version, include)}"`)
      const [shown] = await shownPlants(includes, account, [plant], included)
      return shown
    },
  )
}

function deleteRoute(app: TypedInstance, { store }: RouteOptions): void {
  app.delete(
    '/:id',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'deletePlant',
        summary: 'Delete one of your plants',
        description:
          'Deletes a plant of your own account by its id. A plant that another account shares with you is a 404. With `If-Match`, the plant is deleted only in that version; otherwise the reply is a 412.',
        tags: ['plants'],
        security,
        params: PlantPath,
        response: answers({ 204: Type.Null({ description: 'The plant was deleted.' }) }, PlantError, [
          ...refusals,
          404,
          412,
          507,
        ]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply)
      const isRemoved = await store.remove(callerOf(request).account.id, request.params.id, checkOf(request))
      if (!isRemoved) throw unknownPlant()
      return reply.code(204).send()
    },
  )
}

/** Whether a reply has an `ETag`. Care changes with the date. */
function hasTag(included: ReadonlySet<Included>): boolean {
  return !included.has('care') && !included.has('due')
}

/** The entity tag of a plant: its version, and what the reply includes. */
function tagOf(version: number, include: string | undefined): string {
  return include === undefined ? `${version}` : `${version}.${include}`
}

/** Sets the `ETag`, and sends a 304 if the caller has this version of the plant. @returns whether it sent the 304 */
function sendIfKnown(
  request: FastifyRequest,
  reply: FastifyReply,
  version: number,
  include: string | undefined,
): boolean {
  const tag = tagOf(version, include)
  reply.header('etag', `"${tag}"`)
  const isKnown = matchesTag(request.headers['if-none-match'], tag)
  if (isKnown) reply.code(304).send()
  return isKnown
}

/** The check of `If-Match` and `If-None-Match` before a change; undefined if there is nothing to check. */
function checkOf({ headers }: FastifyRequest): ((version: number) => void) | undefined {
  if (headers['if-match'] === undefined && headers['if-none-match'] === undefined) return undefined
  return (version) => {
    if (allowsChange(headers, version)) return
    const message =
      'The plant is in another version than the request asks for. Read it again, and send its new ETag, with the quotes.'
    throw new ApiError(412, 'precondition_failed', message)
  }
}
