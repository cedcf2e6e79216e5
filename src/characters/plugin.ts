import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf, requireScope } from '../access/guard.ts'
import { bufferOf } from '../bytes.ts'
import { ApiError } from '../errors.ts'
import { takeBodies, whileConnected } from '../http/body.ts'
import { matchesTag } from '../http/etag.ts'
import { answers, refusals, security, type TypedInstance } from '../http/openapi-fields.ts'
import { ChatError } from '../openai/completion.ts'
import type { Work } from '../work/work.ts'
import type { ExportFormat } from './cards/source.ts'
import { type Character, type FoundCharacter, mayRead, unknownCharacter } from './library/character.ts'
import { userNameOf } from './prompt/composition.ts'
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

/** The check for routes that read characters: the key needs one of these scopes. */
const toRead = requireScope('chat', 'characters:write')

/** Content types of avatars. */
const pictureTypes = ['image/png', 'image/jpeg', 'image/webp', 'image/gif']
const picture = (type: string) => Type.Unsafe<Buffer>({ contentMediaType: type })

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

/** Registers `GET /:name/avatar`: a character's picture, for every key that can list the character. */
function avatarRoute(app: TypedInstance, options: CharactersOptions): void {
  const { library } = options
  app.get(
    '/:name/avatar',
    {
      onRequest: toRead,
      schema: {
        operationId: 'getCharacterAvatar',
        summary: "Get a character's picture",
        description:
          "Returns the main icon of the card, or the picture that contains the card: PNG, JPEG, WebP or GIF. The card and its texts are removed, so that all accounts may see the pictures of the operator's cards. The `ETag`, sent as `If-None-Match`, gets a 304 without a body while the picture is the same.",
        tags: ['characters'],
        security,
        // The example names no starter, because starters have no picture.
        params: Type.Object({ name: Type.String({ examples: ['Ada'] }) }),
        response: {
          200: {
            description: 'The picture.',
            content: Object.fromEntries(pictureTypes.map((type) => [type, { schema: picture(type) }])),
          },
          304: Type.Null({ description: 'The picture has not changed since the `ETag` in `If-None-Match`.' }),
          ...answers({}, ChatError, [...refusals, 404]),
        },
      },
    },
    async (request, reply) => {
      const account = callerOf(request).account.id
      const found = await library.find(account, request.params.name)
      if (!found) throw await library.unknown(account, request.params.name)
      // The number changes with the parts that are removed from a picture.
      const tag = `avatar-2-${found.digest}`
      reply.header('cache-control', 'private, no-cache')
      const known = request.headers['if-none-match']
      const unchanged = () => reply.code(304).header('etag', `"${tag}"`).send(null)
      // A client with the current tag has the picture already. `*` stands for any picture, so `*` is checked after the
      // picture is made: the character may have none.
      if (known?.trim() !== '*' && matchesTag(known, tag)) return unchanged()
      const { type, bytes } = await withSource(request, found, options, async (work, source) => {
        const { runOnCard } = await import('./library/jobs.ts')
        const { avatarJob } = await import('./reply-jobs.ts')
        return await runOnCard(work, 'name', avatarJob, source, source)
      })
      if (matchesTag(known, tag)) return unchanged()
      return reply.header('etag', `"${tag}"`).type(type).send(bufferOf(bytes))
    },
  )
}

/** Makes a reply from the source of a character, whose bytes are counted as in flight. @throws ApiError 404 if it was removed */
async function withSource<T>(
  request: FastifyRequest,
  { size, read }: FoundCharacter,
  { inFlight, workOf }: CharactersOptions,
  make: (work: Work, source: Buffer) => T | Promise<T>,
): Promise<T> {
  const { id } = callerOf(request).account
  return inFlight.during(id, await size(), () =>
    whileConnected(request, async (signal) => {
      const source = await read()
      if (!source) throw unknownCharacter()
      return await make(workOf(request, signal), source)
    }),
  )
}

/** The JSON of a character for a caller. */
async function bodyOf(
  request: FastifyRequest<{ Querystring: { conversation_id?: string; user_name?: string } }>,
  found: Character,
  options: CharactersOptions,
): Promise<Buffer> {
  const { name, origin, digest } = found
  const caller = callerOf(request)
  const viewer = {
    isReadable: mayRead(caller, found),
    languages: languagesOf(request.headers['accept-language']),
    stored: await options.store.find(caller.account.id, name, 'exact'),
    conversationId: request.query.conversation_id,
    userName: userNameOf(request.query.user_name),
    now: new Date(),
  }
  return withSource(request, found, options, async (work, bytes) => {
    const { runOnCard } = await import('./library/jobs.ts')
    const { bodyJob } = await import('./reply-jobs.ts')
    const input = { bytes, character: { name, origin, digest }, viewer }
    return bufferOf(await runOnCard(work, 'name', bodyJob, input, bytes))
  })
}

/** Sends a card's file. A header names the parts of the card that the file does not contain. */
async function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  character: Character,
  format: ExportFormat,
  options: CharactersOptions,
): Promise<FastifyReply> {
  const { bytes, losses } = await withSource(request, character, options, async (work, source) => {
    const { exportJob } = await import('./reply-jobs.ts')
    const made = await work.runInPool('format', exportJob, { bytes: source, format })
    // Fastify would write bytes of shared memory as JSON, so the source is copied.
    return { bytes: made.bytes ? bufferOf(made.bytes) : Buffer.from(source), losses: made.losses }
  })
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

/** The languages of an `Accept-Language` header (RFC 9110, section 12.5.4), without regions, the preferred one first. */
function languagesOf(header: string | undefined): readonly string[] {
  return (header ?? '')
    .split(',')
    .map((range) => {
      const [tag = '', ...parameters] = range.split(';').map((part) => part.trim())
      const weight = parameters.find((parameter) => /^q=/i.test(parameter))
      return {
        language: tag.split('-', 1)[0]?.toLowerCase() ?? '',
        weight: weight === undefined ? 1 : Number(weight.slice(2)),
      }
    })
    .filter(({ language, weight }) => /^[a-z]{2,3}$/.test(language) && weight > 0)
    .sort((a, b) => b.weight - a.weight)
    .map(({ language }) => language)
}
