import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../access/guard.ts'
import { bufferOf } from '../bytes.ts'
import { ApiError } from '../errors.ts'
import { takeBodies } from '../http/body.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { whileConnected } from '../http/while-connected.ts'
import { ChatError } from '../openai/completion.ts'
import { avatarRoute } from './avatar-route.ts'
import { readSource, replyJobs, toRead } from './card-replies.ts'
import type { ExportFormat } from './cards/source.ts'
import { languagesOf } from './languages.ts'
import { type Character, mayRead } from './library/character.ts'
import { cardJobs } from './library/lazy-jobs.ts'
import { userNameOf } from './prompt/settings.ts'
import { CharacterBody, CharacterFormat, CharacterList, CharacterPath, CharacterQuery, listBody } from './schemas.ts'
import { type CharactersOptions, cardTypes, uploadRoutes } from './upload-routes.ts'

/** The number of characters in a page if the request has no `limit`. */
const standardPage = 100

const contentTypes: Readonly<Record<ExportFormat, string>> = {
  json: 'application/json; charset=utf-8',
  v2: 'application/json; charset=utf-8',
  png: 'image/png',
  charx: 'application/vnd.charx',
}

/** The routes for characters: lists, single characters, exports, avatars and uploads. */
export const charactersPlugin: FastifyPluginAsyncTypebox<CharactersOptions> = async (app, options) => {
  const { guard, library, store, inFlight, workOf, bodyLimit, limits } = options
  // Bodies are taken as bytes, because a card is stored unchanged, and its reader accepts more than Fastify's JSON parser.
  app.removeAllContentTypeParsers()
  takeBodies(app, cardTypes, (_request, body) => body)
  app.addHook('onRequest', guard.admitApiKey)

  app.get(
    '',
    {
      onRequest: toRead,
      schema: {
        operationId: 'listCharacters',
        summary: 'List characters',
        description:
          "Lists the characters that you can talk to, by name: your own, those of the operator's folder, and the starters.",
        tags: ['characters'],
        security,
        querystring: CharacterQuery,
        response: answers({ 200: CharacterList }, ChatError, [...refusals, 400]),
      },
    },
    async (request) => {
      const { limit = standardPage, after = '', tag } = request.query
      const account = callerOf(request).account.id
      const found = await library.list(account, after, limit + 1, tag)
      return { object: 'list', data: found.slice(0, limit).map(listBody), has_more: found.length > limit }
    },
  )

  app.get(
    '/:name',
    {
      onRequest: toRead,
      schema: {
        operationId: 'getCharacter',
        summary: 'Get a character, or its card',
        description:
          "Returns a character with its greetings, or with `format` its card as a file. Only keys with the scope `admin` read cards of the operator's folder. `name@sha256:…` names one version.",
        tags: ['characters'],
        security,
        params: CharacterPath,
        querystring: CharacterFormat,
        response: answers({ 200: CharacterBody }, ChatError, [...refusals, 400, 404]),
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const account = caller.account.id
      const character = await library.resolve(account, request.params.name)
      if (!character) throw await library.unknown(account, request.params.name)
      const { format } = request.query
      if (format === undefined) {
        return reply.type(contentTypes.json).send(await bodyOf(request, character, options))
      }
      if (!mayRead(caller, character)) throw hiddenCard()
      return await sendFile(request, reply, character, format, options)
    },
  )

  avatarRoute(app, options)

  // The options are passed one by one, because `options` contains the prefix of this group, which would be applied twice.
  await app.register(uploadRoutes, { guard, library, store, inFlight, workOf, bodyLimit, limits })
}

/** The JSON of a character for a caller. */
async function bodyOf(
  request: FastifyRequest<{ Querystring: { conversation_id?: string; user_name?: string } }>,
  { name, origin, digest }: Character,
  { library, store, inFlight, workOf }: CharactersOptions,
): Promise<Buffer> {
  const caller = callerOf(request)
  const account = caller.account.id
  const character = { name, origin, digest }
  const viewer = {
    isReadable: mayRead(caller, character),
    languages: languagesOf(request.headers['accept-language']),
    stored: await store.find(account, name, 'exact'),
    conversationId: request.query.conversation_id,
    userName: userNameOf(request.query.user_name),
    now: new Date(),
  }
  return inFlight.during(account, await library.size(account, character), () =>
    whileConnected(request, async (signal) => {
      const bytes = await readSource(library, account, character)
      const [{ runOnCard }, { bodyJob }] = await Promise.all([cardJobs(), replyJobs()])
      const input = { bytes, character, viewer }
      return bufferOf(await runOnCard(workOf(request, signal), 'name', bodyJob, input, bytes))
    }),
  )
}

/** Sends a card's file. A header names the parts of the card that the file does not contain. */
async function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  character: Character,
  format: ExportFormat,
  { library, inFlight, workOf }: CharactersOptions,
): Promise<FastifyReply> {
  const account = callerOf(request).account.id
  const make = async (signal: AbortSignal) => {
    const source = await readSource(library, account, character)
    const { exportJob } = await replyJobs()
    const input = { bytes: source, format, now: Date.now() }
    const { bytes, losses } = await workOf(request, signal).runInPool('format', exportJob, input)
    // Fastify would write bytes of shared memory as JSON, so the source is copied.
    return { bytes: bytes ? bufferOf(bytes) : Buffer.from(source), losses }
  }
  const size = await library.size(account, character)
  const { bytes, losses } = await inFlight.during(account, size, () => whileConnected(request, make))
  if (losses.length > 0) reply.header('x-export-losses', losses.join(' '))
  reply.type(contentTypes[format]).header('content-disposition', disposition(character.name, format))
  return reply.send(bytes)
}

/** A header with two file names: a plain one for old clients, and the character's name for all other clients (RFC 6266). */
function disposition(name: string, format: ExportFormat): string {
  const extension = format === 'v2' ? 'json' : format
  const encoded = encodeURIComponent(name).replace(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`)
  return `attachment; filename="character.${extension}"; filename*=UTF-8''${encoded}.${extension}`
}

function hiddenCard(): ApiError {
  const message = 'The card is the operator\'s own. Talk to the character, or use a key with the scope "admin".'
  return new ApiError(403, 'character_hidden', message)
}
