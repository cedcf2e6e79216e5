import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { callerOf, requireScope } from '../access/guard.ts'
import { ApiError } from '../errors.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { whileConnected } from '../http/while-connected.ts'
import { ChatError } from '../openai/completion.ts'
import { mayRead, unknownCharacter } from './library/character.ts'
import { CharacterBody, CharacterFormat, CharacterList, CharacterPath, CharacterQuery, listBody } from './schemas.ts'
import { type CharactersOptions, cardTypes, uploadRoutes } from './upload-routes.ts'

/** A page, when none is asked for by its length. */
const standardPage = 100

const contentTypes = {
  json: 'application/json; charset=utf-8',
  v2: 'application/json; charset=utf-8',
  png: 'image/png',
  charx: 'application/vnd.charx',
}

const toRead = requireScope('chat', 'characters:write')

/** The characters that a key may talk to, and an account's own cards, in and out. */
export const charactersPlugin: FastifyPluginAsyncTypebox<CharactersOptions> = async (app, options) => {
  const { guard, library, store, workOf, bodyLimit, limits } = options
  // Bytes, and not strict JSON: a card is kept as it came, and reading it has rules of its own.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(cardTypes, { parseAs: 'buffer' }, async (_request: FastifyRequest, body: Buffer) => body)
  app.addHook('onRequest', guard.admitApiKey)

  app.get(
    '',
    {
      onRequest: toRead,
      schema: {
        operationId: 'listCharacters',
        summary: 'List characters',
        description:
          "The characters that you can talk to, by name: your own, those of the operator's folder, the starters.",
        tags: ['characters'],
        security,
        querystring: CharacterQuery,
        response: answers({ 200: CharacterList }, ChatError, [...refusals, 400]),
      },
    },
    async (request) => {
      const { limit = standardPage, after = '', tag } = request.query
      const found = await library.list(callerOf(request).account.id, after, limit + 1, tag)
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
          "What a character tells of itself; with `format`, its card as a file. Cards of the operator's folder are read by keys with the scope `admin`. `name@sha256:…` names one version.",
        tags: ['characters'],
        security,
        params: CharacterPath,
        querystring: CharacterFormat,
        response: answers({ 200: CharacterBody }, ChatError, [...refusals, 400, 404]),
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const character = await library.resolve(caller.account.id, request.params.name)
      const bytes = character && (await library.source(caller.account.id, character))
      if (!character || !bytes) throw unknownCharacter()
      const { format } = request.query
      const { cardSourceSteps } = await import('./cards/source.ts')
      const source = await whileConnected(request, (signal) =>
        workOf(request, signal).run('name', cardSourceSteps(bytes)),
      )
      if (format === undefined) {
        const { languagesOf, publicBody } = await import('./character-body.ts')
        return publicBody(character, source.document, {
          isReadable: mayRead(caller, character),
          languages: languagesOf(request.headers['accept-language']),
          stored: await store.find(caller.account.id, character.name, 'exact'),
        })
      }
      if (!mayRead(caller, character)) throw hiddenCard()
      const { exportSteps, exportLosses } = await import('./cards/export.ts')
      const losses = exportLosses(source, format)
      const file = await whileConnected(request, (signal) =>
        workOf(request, signal).run('format', exportSteps(source, format)),
      )
      if (losses.length > 0) reply.header('x-export-losses', losses.join(' '))
      return reply
        .type(contentTypes[format])
        .header('content-disposition', disposition(character.name, format))
        .send(file)
    },
  )

  // Not the options themselves: they have this group's prefix in them, which is theirs already.
  await app.register(uploadRoutes, { guard, library, store, workOf, bodyLimit, limits })
}

/** A file name for the card: what old clients read is plain, what others read is the character's own (RFC 6266). */
function disposition(name: string, format: keyof typeof contentTypes): string {
  const extension = format === 'v2' ? 'json' : format
  const encoded = encodeURIComponent(name).replace(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`)
  return `attachment; filename="character.${extension}"; filename*=UTF-8''${encoded}.${extension}`
}

function hiddenCard(): ApiError {
  const message = 'The card is the operator\'s own. Talk to the character, or use a key with the scope "admin".'
  return new ApiError(403, 'character_hidden', message)
}
