import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Kind, Type, TypeRegistry } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { callerOf, type Guard, requireScope } from '../access/guard.ts'
import { photoBytesAllowed } from '../access/limits-in-force.ts'
import { inlineBodyBytes, takeBodies, whileConnected } from '../http/body.ts'
import type { BytesInFlight } from '../http/bytes-in-flight.ts'
import { matchesTag } from '../http/etag.ts'
import { setIgnoredHeader } from '../http/ignored-params.ts'
import type { WorkOf } from '../http/json.ts'
import { answers, type TypedInstance } from '../http/openapi-fields.ts'
import type { Limits } from '../limit-values.ts'
import { openPlantsGroup } from './group.ts'
import { maxPhotoBytes, type NewPhoto, photoJob, photoTypes } from './photo.ts'
import type { Photos } from './photos.ts'
import { PhotoFacts, PlantError, PlantPath, refusals, security } from './schemas.ts'

/** The objects and settings that the routes of photos use. */
export interface PhotoOptions {
  readonly photos: Photos
  readonly guard: Guard
  readonly inFlight: BytesInFlight
  readonly workOf: WorkOf
  /** The limits of accounts without limits of their own. */
  readonly limits: Limits
}

// The body is not validated by a schema: its bytes decide about the format, and not its content type.
TypeRegistry.Set('Photo', (_schema, value) => value === undefined || Buffer.isBuffer(value))
const content = Object.fromEntries(
  photoTypes.map((type) => [
    type,
    { schema: Type.Unsafe<Buffer | undefined>({ [Kind]: 'Photo', contentMediaType: type }) },
  ]),
)

/** The routes of photos, in the plants group. */
export const photoPlugin: FastifyPluginAsyncTypebox<PhotoOptions> = async (app, options) => {
  await openPlantsGroup(app, options.guard)
  app.removeAllContentTypeParsers()
  takeBodies(app, '*', (_request, body) => body)
  putRoute(app, options)
  readAndDeleteRoutes(app, options)
}

function putRoute(app: TypedInstance, { photos, workOf, limits }: PhotoOptions): void {
  app.put(
    '/:id/photo',
    {
      onRequest: requireScope('plants:write'),
      bodyLimit: maxPhotoBytes,
      schema: {
        operationId: 'putPhoto',
        summary: 'Set the photo of one of your plants',
        description:
          'Takes the bytes of a JPEG, PNG or WebP of at most 8 MiB; the content type does not count. Metadata, such as the place and time of the photo, is removed; the orientation and the colour profile stay. The reply comes when the photo is on disk.',
        tags: ['plants'],
        security,
        params: PlantPath,
        body: { content },
        response: answers({ 200: PhotoFacts }, PlantError, [...refusals, 404, 413, 415, 507]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply)
      const caller = callerOf(request)
      const photo = await readPhoto(request, workOf)
      const writing = photos.put(caller.account.id, request.params.id, photo, photoBytesAllowed(caller, limits))
      await (request.held?.during(writing) ?? writing)
      return photo.facts
    },
  )
}

/** The routes to read and to delete a photo. */
function readAndDeleteRoutes(app: TypedInstance, { photos, inFlight }: PhotoOptions): void {
  app.get(
    '/:id/photo',
    {
      onRequest: requireScope('plants:read'),
      schema: {
        operationId: 'getPhoto',
        summary: 'Get the photo of one of your plants',
        description:
          'Returns the photo of a plant of your own account. Photos of shared plants are not shown. The `ETag`, sent as `If-None-Match`, gets a 304 without a body while the photo is the same.',
        tags: ['plants'],
        security,
        params: PlantPath,
        response: {
          200: { description: 'The photo.', content },
          304: Type.Null({ description: 'The photo has not changed since the `ETag` in `If-None-Match`.' }),
          ...answers({}, PlantError, [...refusals, 404]),
        },
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply)
      const account = callerOf(request).account.id
      for (let incomplete: string | undefined; ; ) {
        const photo = await photos.find(account, request.params.id)
        reply.header('etag', `"${photo.digest}"`)
        if (matchesTag(request.headers['if-none-match'], photo.digest)) return reply.code(304).send(null)
        const bytes = await inFlight.during(account, photo.bytes, () => photos.read(photo))
        if (bytes) return reply.type(photo.type).send(bytes)
        // If the photo was replaced or removed meanwhile, the next one has another id.
        if (photo.id === incomplete) throw new Error('a photo in the database has lost a piece')
        incomplete = photo.id
      }
    },
  )

  app.delete(
    '/:id/photo',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'deletePhoto',
        summary: 'Delete the photo of one of your plants',
        description: 'Deletes the photo, which then counts in no limit.',
        tags: ['plants'],
        security,
        params: PlantPath,
        response: answers({ 204: Type.Null({ description: 'The photo was deleted.' }) }, PlantError, [
          ...refusals,
          404,
          507,
        ]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply)
      await photos.remove(callerOf(request).account.id, request.params.id)
      return reply.code(204).send()
    },
  )
}

/** Reads the photo of a request: here if the body is small, else in a worker. */
function readPhoto(request: FastifyRequest, workOf: WorkOf): Promise<NewPhoto> {
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
  return whileConnected(request, (signal) => {
    const work = workOf(request, signal)
    return body.length <= inlineBodyBytes ? work.run('body', photoJob, body) : work.runInPool('body', photoJob, body)
  })
}
