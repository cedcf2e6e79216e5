import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { actorOf, callerOf, type Guard, requireScope } from '../access/guard.ts'
import { charactersAllowed } from '../access/limits-in-force.ts'
import { ApiError, invalidField } from '../errors.ts'
import { whileConnected } from '../http/body.ts'
import type { BytesInFlight } from '../http/bytes-in-flight.ts'
import type { WorkOf } from '../http/json.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import type { Limits } from '../limit-values.ts'
import { ChatError } from '../openai/completion.ts'
import type { Job } from '../work/job.ts'
import { type CharacterStore, characterNameProblem, shownDigest } from './library/character.ts'
import type { UploadedCard } from './library/jobs.ts'
import type { CharacterLibrary } from './library/library.ts'
import { CharacterPath, CharacterSummary, cardBody, UploadQuery } from './schemas.ts'

/** The options of the routes for characters. */
export interface CharactersOptions {
  readonly guard: Guard
  readonly library: CharacterLibrary
  readonly store: CharacterStore
  readonly inFlight: BytesInFlight
  readonly workOf: WorkOf
  /** The most bytes of an upload (`CARD_BODY_LIMIT`). */
  readonly bodyLimit: number
  /** The default limits, for keys and accounts without limits of their own. */
  readonly limits: Limits
}

/** Content types of uploads; the bytes decide the format. */
export const cardTypes = [
  'application/json',
  'image/png',
  'application/zip',
  'application/vnd.charx',
  'application/octet-stream',
]

/** Status codes of refused uploads. */
const writeRefusals = [...refusals, 400, 413, 415, 507]

const toWrite = requireScope('characters:write')

/** The routes to add, replace and delete an account's own cards. The plugin that registers them authenticates the callers. */
export const uploadRoutes: FastifyPluginAsyncTypebox<CharactersOptions> = async (app, options) => {
  const { library, store, workOf, bodyLimit, limits } = options
  const by = (request: FastifyRequest) => actorOf(request, limits)

  app.post(
    '',
    {
      onRequest: [toWrite, acceptCards],
      bodyLimit,
      schema: {
        operationId: 'addCharacter',
        summary: 'Upload a character card',
        description:
          'Takes the bytes of a card, JSON, PNG or CHARX. The card is stored unchanged, for your account only, under the name in the card. With `dry_run=true` nothing is stored: the reply is a 200 with the same summary, even if a limit is reached or the name is taken.',
        tags: ['characters'],
        security,
        querystring: UploadQuery,
        body: cardBody(cardTypes),
        response: answers({ 200: CharacterSummary, 201: CharacterSummary }, ChatError, [...writeRefusals, 409]),
      },
    },
    async (request, reply) => {
      const { namedUploadJob } = await import('./library/jobs.ts')
      const read = await readUpload(request, namedUploadJob, workOf)
      if (request.query.dry_run === 'true') return summaryBody(read.name, read)
      const allowed = charactersAllowed(callerOf(request), limits)
      await whileCounted(request, store.create(accountOf(request), toStore(read.name, read), allowed, by(request)))
      reply.code(201).header('location', pathOf(read.name))
      return summaryBody(read.name, read)
    },
  )

  app.put(
    '/:name',
    {
      onRequest: [toWrite, acceptCards],
      bodyLimit,
      schema: {
        operationId: 'putCharacter',
        summary: 'Upload a character card under a name',
        description:
          'Replaces your character of this name, or adds it. Requests can pin its newest 20 versions, and older ones that were used within 90 days. With `dry_run=true` nothing is stored.',
        tags: ['characters'],
        security,
        params: CharacterPath,
        querystring: UploadQuery,
        body: cardBody(cardTypes),
        response: answers({ 200: CharacterSummary, 201: CharacterSummary }, ChatError, writeRefusals),
      },
    },
    async (request, reply) => {
      const name = readName(request.params.name)
      const { uploadJob } = await import('./library/jobs.ts')
      const read = await readUpload(request, uploadJob, workOf)
      if (request.query.dry_run === 'true') return summaryBody(name, read)
      const allowed = charactersAllowed(callerOf(request), limits)
      const putting = store.put(accountOf(request), toStore(name, read), allowed, by(request))
      if (await whileCounted(request, putting)) reply.code(201).header('location', pathOf(name))
      return summaryBody(name, read)
    },
  )

  app.delete(
    '/:name',
    {
      onRequest: toWrite,
      schema: {
        operationId: 'deleteCharacter',
        summary: 'Delete one of your characters',
        description: 'Deletes the character with all its versions, which then count in no limit of your account.',
        tags: ['characters'],
        security,
        params: CharacterPath,
        response: answers({ 204: Type.Null({ description: 'Deleted.' }) }, ChatError, [...refusals, 404, 507]),
      },
    },
    async (request, reply) => {
      const account = accountOf(request)
      const name = request.params.name.trim()
      if (!(await store.remove(account, name, by(request)))) throw await whyNotRemoved(library, account, name)
      return reply.code(204).send()
    },
  )
}

function accountOf(request: FastifyRequest): number {
  return callerOf(request).account.id
}

/** Refuses a body with a missing or unknown content type, before the body is read. */
async function acceptCards({ headers }: FastifyRequest): Promise<void> {
  const type = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase()
  if (type !== undefined && cardTypes.includes(type)) return
  const message = `This content type is not supported. Send the card with one of ${cardTypes.join(', ')}.`
  throw new ApiError(415, 'unsupported_media_type', message)
}

/** @throws ApiError 400 for an invalid name */
function readName(text: string): string {
  const name = text.trim()
  const problem = characterNameProblem(name)
  if (problem === undefined) return name
  throw invalidField('name', problem, 'The path part')
}

/** The error for a name that no upload of the account has: 403 for a character of the folder or a starter, else 404. */
async function whyNotRemoved(library: CharacterLibrary, account: number, name: string): Promise<ApiError> {
  const found = await library.find(account, name)
  if (!found || found.origin === 'account') return await library.unknown(account, name)
  return new ApiError(
    403,
    'character_read_only',
    'This character is not one of your uploads. Only the operator of the service can remove it.',
  )
}

/** What a job reads of an uploaded card, and the card's bytes. */
async function readUpload<T extends UploadedCard>(
  request: FastifyRequest,
  job: Job<Uint8Array, T>,
  workOf: WorkOf,
): Promise<T & { readonly source: Buffer }> {
  const { runOnCard } = await import('./library/jobs.ts')
  const source = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
  const read = await whileConnected(request, (signal) =>
    runOnCard(workOf(request, signal), 'card', job, source, source),
  )
  return { ...read, source }
}

/** Keeps a card's bytes counted as in flight until they are written, even if the client disconnects. */
function whileCounted<T>(request: FastifyRequest, writing: Promise<T>): Promise<T> {
  return request.held?.during(writing) ?? writing
}

function toStore(name: string, { digest, source, about }: UploadedCard & { readonly source: Buffer }) {
  return { name, digest, source, about }
}

function summaryBody(name: string, { digest, summary }: UploadedCard) {
  return { object: 'character', name, digest: shownDigest(digest), ...summary }
}

function pathOf(name: string): string {
  return `/characters/${encodeURIComponent(name)}`
}
