import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { actorOf } from '../access/actor.ts'
import { callerOf, type Guard, requireScope } from '../access/guard.ts'
import { charactersAllowed } from '../access/limits-in-force.ts'
import { freeBytes } from '../bytes.ts'
import { ApiError, invalidField } from '../errors.ts'
import type { BytesInFlight } from '../http/bytes-in-flight.ts'
import type { WorkOf } from '../http/json.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { whileConnected } from '../http/while-connected.ts'
import type { Limits } from '../limit-values.ts'
import { ChatError } from '../openai/completion.ts'
import type { ReadCard } from './library/card-bytes.ts'
import { type CharacterStore, characterNameProblem, shownDigest } from './library/character.ts'
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
      const { nameOf } = await import('./library/card-bytes.ts')
      const read = await readUpload(request, reply, options)
      const name = nameOf(read)
      if (request.query.dry_run === 'true') return await summaryBody(name, read, request, workOf)
      const allowed = charactersAllowed(callerOf(request), limits)
      await whileCounted(request, store.create(accountOf(request), toStore(name, read), allowed, by(request)))
      reply.code(201).header('location', pathOf(name))
      return await summaryBody(name, read, request, workOf)
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
      const read = await readUpload(request, reply, options)
      if (request.query.dry_run === 'true') return await summaryBody(name, read, request, workOf)
      const allowed = charactersAllowed(callerOf(request), limits)
      const putting = store.put(accountOf(request), toStore(name, read), allowed, by(request))
      if (await whileCounted(request, putting)) reply.code(201).header('location', pathOf(name))
      return await summaryBody(name, read, request, workOf)
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

/**
 * Opens the count of a small body, which has none. When the body is unpacked, its content may be large, and counts until the reply
 * is over.
 */
function countUnpacked(request: FastifyRequest, { raw }: FastifyReply, inFlight: BytesInFlight): void {
  if (request.held) return
  const held = inFlight.open(accountOf(request))
  if (raw.destroyed) held.release()
  else raw.once('close', () => held.release())
  request.held = held
}

async function readUpload(
  request: FastifyRequest,
  reply: FastifyReply,
  { inFlight, workOf }: CharactersOptions,
): Promise<ReadCard> {
  countUnpacked(request, reply, inFlight)
  const { cardSteps } = await import('./library/card-bytes.ts')
  const bytes = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
  const steps = cardSteps(bytes, (unpacked, values) => {
    request.held?.setWorkedOn(Math.max(bytes.length, unpacked), values)
  })
  return await whileConnected(request, (signal) => workOf(request, signal).run('card', steps))
}

/** Keeps a card's bytes counted as in flight until they are written, even if the client disconnects. */
function whileCounted<T>(request: FastifyRequest, writing: Promise<T>): Promise<T> {
  return request.held?.during(writing) ?? writing
}

function toStore(name: string, { digest, source, about }: ReadCard) {
  return { name, digest, source: source.bytes, about }
}

/** The summary of an uploaded card. Frees the memory of the card's bytes, which are stored by now, or not needed in a dry run. */
async function summaryBody(
  name: string,
  { digest, card, source, notes }: ReadCard,
  request: FastifyRequest,
  workOf: WorkOf,
) {
  const { describeCard } = await import('./cards/description.ts')
  freeBytes(source.bytes)
  const steps = describeCard(card, source, notes)
  const summary = await whileConnected(request, (signal) => workOf(request, signal).run('card', steps))
  return { object: 'character', name, digest: shownDigest(digest), ...summary }
}

function pathOf(name: string): string {
  return `/characters/${encodeURIComponent(name)}`
}
