import { Type } from '@sinclair/typebox'
import { callerOf } from '../access/guard.ts'
import { freeBytes } from '../bytes.ts'
import { matchesTag } from '../http/etag.ts'
import { answers, refusals, security, type TypedInstance } from '../http/openapi-fields.ts'
import { ChatError } from '../openai/completion.ts'
import type { Work } from '../work.ts'
import { readSource, sendBytes, toRead } from './card-replies.ts'
import type { OnMemory } from './cards/inflate.ts'
import type { CardSource } from './cards/source.ts'
import type { CardFile, OpenFiles } from './open-files.ts'
import type { CharactersOptions } from './upload-routes.ts'

/** Content types of avatars. */
const pictureTypes = ['image/png', 'image/jpeg', 'image/webp', 'image/gif']
const picture = (type: string) => Type.Unsafe<Buffer>({ type: 'string', contentMediaType: type })

/** Registers `GET /:name/avatar`: a character's picture, for every key that can list the character. */
export function avatarRoute(
  app: TypedInstance,
  { library, workOf, openFiles }: Pick<CharactersOptions, 'library' | 'workOf'> & { readonly openFiles: OpenFiles },
): void {
  app.get(
    '/:name/avatar',
    {
      onRequest: toRead,
      schema: {
        operationId: 'getCharacterAvatar',
        summary: "Get a character's picture",
        description:
          "Returns the main icon of the card, or the picture that contains the card: PNG, JPEG, WebP or GIF. The card and its texts are removed, so that all accounts may see the pictures of the operator's cards.",
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
      const size = await found.size()
      const file = await openFiles.open(reply.raw, account, tag, size, async (signal, onMemory) => {
        const work = workOf(request, signal)
        return await makeAvatar(await readSource(library, account, found, work, onMemory), work, onMemory)
      })
      if (matchesTag(known, tag)) return unchanged()
      return sendBytes(reply.header('etag', `"${tag}"`).type(file.type ?? 'application/octet-stream'), file.bytes)
    },
  )
}

/** Makes a card's avatar, and frees the memory of the source. @throws ApiError 404 if the card has no usable picture */
async function makeAvatar(source: CardSource, work: Work, onMemory: OnMemory): Promise<CardFile> {
  const { avatarSteps } = await import('./cards/avatar.ts')
  try {
    return { ...(await work.run('name', avatarSteps(source, onMemory))), losses: [] }
  } finally {
    freeBytes(source.bytes)
  }
}
