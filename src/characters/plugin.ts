import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../access/guard.ts'
import { freeBytes } from '../bytes.ts'
import { ApiError } from '../errors.ts'
import { takeBodies } from '../http/body.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { whileConnected } from '../http/while-connected.ts'
import { jsonReply } from '../json-writer.ts'
import { ChatError } from '../openai/completion.ts'
import type { Work } from '../work.ts'
import { avatarRoute } from './avatar-route.ts'
import { readSource, sendBytes, toRead } from './card-replies.ts'
import type { OnMemory } from './cards/inflate.ts'
import type { CardSource } from './cards/source.ts'
import { type Character, mayRead } from './library/character.ts'
import { type CardFile, OpenFiles } from './open-files.ts'
import { userNameOf } from './prompt/settings.ts'
import { CharacterBody, CharacterFormat, CharacterList, CharacterPath, CharacterQuery, listBody } from './schemas.ts'
import { type CharactersOptions, cardTypes, uploadRoutes } from './upload-routes.ts'

/** The number of characters in a page if the request has no `limit`. */
const standardPage = 100

const contentTypes = {
  json: 'application/json; charset=utf-8',
  v2: 'application/json; charset=utf-8',
  png: 'image/png',
  charx: 'application/vnd.charx',
}

/** The routes for characters: lists, single characters, exports, avatars and uploads. */
export const charactersPlugin: FastifyPluginAsyncTypebox<CharactersOptions> = async (app, options) => {
  const { guard, library, store, inFlight, workOf, bodyLimit, limits } = options
  const openFiles = new OpenFiles(inFlight)
  // Bodies are taken as bytes, because a card is stored unchanged, and its reader accepts more than Fastify's JSON parser.
  app.removeAllContentTypeParsers()
  takeBodies(app, cardTypes, workedOn)
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
      const found = await whileConnected(request, (signal) =>
        library.list(account, after, limit + 1, tag, workOf(request, signal)),
      )
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
      const size = await library.size(account, character)
      if (format === undefined) {
        return reply.type(contentTypes.json).send(await bodyOf(request, character, size, options))
      }
      if (!mayRead(caller, character)) throw hiddenCard()
      const file = await openFiles.open(
        reply.raw,
        account,
        `${character.digest} ${format}`,
        size,
        async (signal, onMemory) => {
          const work = workOf(request, signal)
          const source = await readSource(library, account, character, work, onMemory)
          return await makeFile(source, format, work, onMemory)
        },
      )
      return sendFile(reply, character.name, format, file)
    },
  )

  avatarRoute(app, { ...options, openFiles })

  // The options are passed one by one, because `options` contains the prefix of this group, which would be applied twice.
  await app.register(uploadRoutes, { guard, library, store, inFlight, workOf, bodyLimit, limits })
}

/** The JSON of a character for a caller. @param size the bytes of its source, which count as in flight while it is read */
async function bodyOf(
  request: FastifyRequest<{ Querystring: { conversation_id?: string; user_name?: string } }>,
  character: Character,
  size: number,
  { library, store, inFlight, workOf }: CharactersOptions,
) {
  const caller = callerOf(request)
  const account = caller.account.id
  const { languagesOf, publicBody } = await import('./character-body.ts')
  const viewer = {
    isReadable: mayRead(caller, character),
    languages: languagesOf(request.headers['accept-language']),
    stored: await store.find(account, character.name, 'exact'),
    conversationId: request.query.conversation_id,
    userName: userNameOf(request.query.user_name),
  }
  return inFlight.during(account, size, (onMemory) =>
    whileConnected(request, async (signal) => {
      const work = workOf(request, signal)
      const source = await readSource(library, account, character, work, onMemory)
      try {
        const body = await work.run('name', publicBody(character, source, viewer, onMemory))
        return await work.run('name', jsonReply(body))
      } finally {
        freeBytes(source.bytes)
      }
    }),
  )
}

/** The body of an upload. From now on its bytes count several times as in flight, for the memory of the parsed card. */
function workedOn({ held }: FastifyRequest, body: Buffer): Buffer {
  held?.setWorkedOn(body.length)
  return body
}

/** Makes a card's file. Frees the memory of the source, unless the file is the source itself. */
async function makeFile(
  source: CardSource,
  format: keyof typeof contentTypes,
  work: Work,
  onMemory: OnMemory,
): Promise<CardFile> {
  const { exportSteps } = await import('./cards/export.ts')
  let file: CardFile | undefined
  try {
    file = await work.run('format', exportSteps(source, format, Date.now(), onMemory))
    return file
  } finally {
    if (file?.bytes !== source.bytes) freeBytes(source.bytes)
  }
}

/** Sends a card's file. A header names the parts of the card that the file does not contain. */
function sendFile(reply: FastifyReply, name: string, format: keyof typeof contentTypes, file: CardFile): FastifyReply {
  const { bytes, losses } = file
  if (losses.length > 0) reply.header('x-export-losses', losses.join(' '))
  reply.type(contentTypes[format]).header('content-disposition', disposition(name, format))
  return sendBytes(reply, bytes)
}

/** A header with two file names: a plain one for old clients, and the character's name for all other clients (RFC 6266). */
function disposition(name: string, format: keyof typeof contentTypes): string {
  const extension = format === 'v2' ? 'json' : format
  const encoded = encodeURIComponent(name).replace(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`)
  return `attachment; filename="character.${extension}"; filename*=UTF-8''${encoded}.${extension}`
}

function hiddenCard(): ApiError {
  const message = 'The card is the operator\'s own. Talk to the character, or use a key with the scope "admin".'
  return new ApiError(403, 'character_hidden', message)
}
