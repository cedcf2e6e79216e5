import { type Static, Type } from '@sinclair/typebox'
import { callerOf, requireScope } from '../access/guard.ts'
import { setIgnoredHeader } from '../http/ignored-params.ts'
import { answers, choice, type TypedInstance } from '../http/openapi-fields.ts'
import type { Cursors } from './cursor.ts'
import { sorts } from './find.ts'
import { archivedChoices, isSearch, sendFound } from './found-list.ts'
import { LongReplies, maxWholeList } from './long-replies.ts'
import type { RouteOptions } from './options.ts'
import { digestOf, nextLink, sendIfNotModified, sendPage } from './page-replies.ts'
import { checkedText, type PlantQuery } from './plant.ts'
import { csvTexts, csvType } from './plant-csv.ts'
import { include, listOrCsv, NotModified, PlantError, refusals, security } from './schemas.ts'

/** The query of a CSV file. */
const CsvQuery = Type.Object({
  format: Type.Optional(
    Type.Literal('csv', {
      description:
        '`csv` gives all your own plants as a CSV file with the columns that `POST /plants/import` reads. The other parameters are ignored.',
      errorMessage: 'send "csv", once',
    }),
  ),
})

const ListQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      description: 'The maximum number of plants; by default all.',
      examples: [10],
      minimum: 1,
      maximum: 2 ** 31 - 1,
      format: 'int32',
      errorMessage: 'send a whole number from 1 to 2147483647, once',
    }),
  ),
  tag: Type.Optional(
    Type.String({ description: 'Only plants with this tag.', examples: ['aroid'], errorMessage: 'send it once' }),
  ),
  after: Type.Optional(
    Type.String({
      description: 'The cursor of the next page, from the `Link` header of the previous reply.',
      errorMessage: 'send it once',
    }),
  ),
  q: Type.Optional(
    Type.String({
      description:
        'Only plants with this part in their name, tag, species or place, such as `monst`: 1 to 255 characters after trimming. Case and width of letters do not count.',
      errorMessage: 'send it once',
    }),
  ),
  place: Type.Optional(
    Type.String({
      description: 'Only plants with exactly this place, such as `Living room`.',
      errorMessage: 'send it once',
    }),
  ),
  archived: Type.Optional(
    choice(archivedChoices, {
      description: 'Only plants that are archived, or that are not; by default all.',
      errorMessage: 'send true, false or all, once',
    }),
  ),
  sort: Type.Optional(
    choice(sorts, {
      description:
        'The order, `-` for the reverse: by id (the default), by name without case, or by the time of the last change.',
      errorMessage: `send ${sorts.slice(0, -1).join(', ')} or ${sorts.at(-1)}, once`,
    }),
  ),
  include,
  ...CsvQuery.properties,
})
type ListQuery = Static<typeof ListQuery>

/** Registers `GET /plants`. */
export function listRoute(app: TypedInstance, options: RouteOptions & { readonly cursors: Cursors }): void {
  const { store, scripts, guard, pages, cursors, plantSchema } = options
  const longReplies = new LongReplies(store, guard)

  app.get(
    '',
    {
      onRequest: requireScope('plants:read'),
      schema: {
        operationId: 'listPlants',
        summary: 'List plants',
        description:
          'Returns your own plants, ordered by id, then the plants that other accounts share with you, by account and id. If there are more plants than the `limit`, the `Link` header has the address of the next page, with all parameters. The weak `ETag` names the version of the list: sent as `If-None-Match`, it gets a 304 without a body while nothing has changed. While others share plants with you by tag, it names the plants of the reply, and a list of more than 1,000 plants has none. With `q`, `place`, `archived`, `sort`, or `include` of more than `id`, a page has at most 1,000 plants, also without a `limit`, and less if they have long notes: take the next page from the `Link` header. Each page has your own plants before those of others, and a cursor (`after`) belongs to its search: with other parameters it is a 400. Pages stay exact while plants are added and removed. Unknown query parameters are ignored, and named in the reply header `x-ignored-params`.',
        tags: ['plants'],
        security,
        querystring: ListQuery,
        response: { 200: listOrCsv(Type.Array(plantSchema)), ...answers({ 304: NotModified }, PlantError, refusals) },
      },
    },
    // This handler replies by `send` and returns no promise: for a promise Fastify adds another listener to the reply.
    (request, reply) => {
      setIgnoredHeader(request, reply, { query: ListQuery })
      const account = callerOf(request).account.id
      if (request.query.format === 'csv') {
        setIgnoredHeader(request, reply, { query: CsvQuery })
        reply.header('content-disposition', 'attachment; filename="plants.csv"')
        longReplies.stream(request, reply, csvType, () => csvTexts(scripts, account))
        return
      }
      if (isSearch(request.query)) {
        sendFound(request, reply, request.query, options).catch((error: unknown) => reply.send(error))
        return
      }
      const { limit = Number.POSITIVE_INFINITY, tag, include } = request.query
      // The query is checked first, because a refusal has no `ETag`.
      const list = { query: queryOf(request.query, cursors), limit, tag, include, cursors }
      // The version is read before the plants: after a change in between, the `ETag` is too old, never too new.
      const version = store.version(account)
      if (version !== null) {
        if (sendIfNotModified(request, reply, version, include)) return
        const ready = pages.get(account, request.url, version)
        if (ready) return sendPage(reply, ready)
      }
      const read = async (): Promise<void> => {
        const { json, last } = await store.list(account, list.query, Math.min(limit, maxWholeList))
        if (last && limit > maxWholeList) return longReplies.send(request, reply, list)
        const page = last ? { text: json, link: nextLink(last, list) } : { text: json }
        if (version !== null) pages.set(account, request.url, version, page)
        else if (sendIfNotModified(request, reply, digestOf(page), include)) return
        sendPage(reply, page)
      }
      read().catch((error: unknown) => reply.send(error))
    },
  )
}

/** Reads the query. @throws ApiError 400 for a tag that no plant can have, and for an invalid cursor */
function queryOf({ tag, after, include }: ListQuery, cursors: Cursors): PlantQuery {
  return {
    ...(tag === undefined ? {} : { tag: checkedText('tag', tag) }),
    ...(after === undefined ? {} : { after: cursors.read(after) }),
    ...(include === undefined ? {} : { withIds: true }),
  }
}
