import { Type } from '@sinclair/typebox'
import { callerOf } from '../access/guard.ts'
import { bufferOf } from '../bytes.ts'
import { matchesTag } from '../http/etag.ts'
import { answers, refusals, security, type TypedInstance } from '../http/openapi-fields.ts'
import { ChatError } from '../openai/completion.ts'
import { readSource, replyJobs, toRead } from './card-replies.ts'
import type { Avatar } from './cards/avatar.ts'
import { DigestCache } from './library/digest-cache.ts'
import { cardJobs } from './library/lazy-jobs.ts'
import type { CharactersOptions } from './upload-routes.ts'

/** Content types of avatars. */
const pictureTypes = ['image/png', 'image/jpeg', 'image/webp', 'image/gif']
const picture = (type: string) => Type.Unsafe<Buffer>({ type: 'string', contentMediaType: type })

/** The most bytes of the pictures in the cache. */
const cacheBytes = 16 * 1024 ** 2

/** Registers `GET /:name/avatar`: a character's picture, for every key that can list the character. */
export function avatarRoute(
  app: TypedInstance,
  { library, workOf, inFlight }: Pick<CharactersOptions, 'library' | 'workOf' | 'inFlight'>,
): void {
  const avatars = new DigestCache<Avatar>(cacheBytes, ({ bytes }) => bytes.length)
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
      const make = async () =>
        inFlight.during(account, await found.size(), async () => {
          const source = await readSource(library, account, found)
          const [{ runOnCard }, { avatarJob }] = await Promise.all([cardJobs(), replyJobs()])
          // Several requests may wait for the picture, so it is made even if this client leaves.
          const work = workOf(request, new AbortController().signal)
          return await runOnCard(work, 'name', avatarJob, source, source)
        })
      const { type, bytes } = await avatars.get(account, found.digest, make)
      if (matchesTag(known, tag)) return unchanged()
      return reply.header('etag', `"${tag}"`).type(type).send(bufferOf(bytes))
    },
  )
}
