import { hash } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { actorOf, callerOf, type Guard, requireScope } from '../access/guard.ts'
import type { AuditTrail } from '../audit/record.ts'
import { ApiError, plantErrorBody } from '../errors.ts'
import { whileConnected } from '../http/body.ts'
import type { ReaderLimit } from '../http/cached-document.ts'
import { errorHandler } from '../http/errors.ts'
import { matchesTag } from '../http/etag.ts'
import { setIgnoredHeader } from '../http/ignored-params.ts'
import { answers, type TypedInstance } from '../http/openapi-fields.ts'
import type { Limits } from '../limit-values.ts'
import { networkOf } from '../networks.ts'
import { Cursors } from '../plants/cursor.ts'
import { openPlantsGroup } from '../plants/group.ts'
import type { PlantStore } from '../plants/plant.ts'
import { PlantError, refusals, security } from '../plants/schemas.ts'
import type { Scripts } from '../storage/scripts.ts'
import type { Works } from '../work/work.ts'
import { endFeed, type Feed, findFeed, makeFeedSecret, readFeed, setFeed } from './feed.ts'

/** The objects and settings that the routes of the calendar feed use. */
export interface FeedOptions {
  readonly scripts: Scripts
  readonly audit: AuditTrail
  readonly store: Pick<PlantStore, 'cursorKey'>
  readonly guard: Guard
  readonly works: Pick<Works, 'workOf'>
  /** Bounds the open replies of calendars, which need no key. */
  readonly readers: ReaderLimit
  /** The limits of accounts without limits of their own. */
  readonly limits: Limits
}

/** A calendar with more entries is written by a worker: each entry takes some 10 µs. */
const maxInlineEntries = 300
/** How long a client may use a calendar without asking again. */
const maxAgeSeconds = 900

const NewFeed = Type.Object(
  {
    url: Type.String({
      description: 'The address of the calendar, below the address of the service. It is shown once.',
    }),
    created: Type.Integer({ description: 'Unix seconds.' }),
  },
  { title: 'NewFeed' },
)

const CalendarQuery = Type.Object({
  token: Type.String({
    description: 'The secret of the feed.',
    errorMessage: 'send it once',
    examples: ['feed_4f7dPYJ2bQ8mXw1KzT0aLr9sVhNcEu35'],
  }),
})

/** The routes of the calendar feed of an account. */
export const feedPlugin: FastifyPluginAsyncTypebox<FeedOptions> = async (app, options) => {
  await app.register(async (group) => {
    await openPlantsGroup(group, options.guard)
    feedRoutes(group, options)
  })
  calendarRoute(app, options, new Cursors(await options.store.cursorKey()))
}

/** The routes that make and end a feed, in the plants group. */
function feedRoutes(app: TypedInstance, { audit, limits }: FeedOptions): void {
  app.post(
    '/care/feed',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'makeFeed',
        summary: 'Make a calendar feed of what is due',
        description:
          'Returns the address of a calendar, with a secret of its own. It replaces the feed that the account has. The audit trail records it.',
        tags: ['care'],
        security,
        response: answers({ 201: NewFeed }, PlantError, [...refusals, 507]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply)
      const { id } = callerOf(request).account
      const secret = makeFeedSecret()
      const created = await audit.change((record) => setFeed(id, secret, actorOf(request, limits), record))
      reply.code(201).header('cache-control', 'no-store')
      return { url: `/care.ics?token=${secret}`, created }
    },
  )

  app.delete(
    '/care/feed',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'endFeed',
        summary: 'End the calendar feed',
        description: 'Ends the feed of the account: its address is a 404 from then on.',
        tags: ['care'],
        security,
        response: answers({ 204: Type.Null({ description: 'The feed has ended.' }) }, PlantError, [
          ...refusals,
          404,
          507,
        ]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply)
      // Not counted as a change, so that the feed can end at the limit of changes too.
      const by = { ...actorOf(request, limits), changeLimits: [] }
      await audit.change((record) => endFeed(callerOf(request).account.id, by, record))
      return reply.code(204).send()
    },
  )
}

/** The calendar. Its secret admits the request: programs for calendars send no header. */
function calendarRoute(app: TypedInstance, { scripts, guard, works, readers }: FeedOptions, cursors: Cursors): void {
  app.setErrorHandler(errorHandler(plantErrorBody))
  const textOf = async (request: FastifyRequest, feed: Feed): Promise<string> => {
    const { calendarJob } = await import('./feed-calendar.ts')
    const input = await readFeed(scripts, cursors, feed)
    return whileConnected(request, (signal) => {
      const work = works.workOf({ account: feed.account, signal })
      const run = input.entries.length <= maxInlineEntries ? work.run : work.runInPool
      return run('token', calendarJob, input)
    })
  }
  app.get(
    '/care.ics',
    {
      schema: {
        operationId: 'getCalendar',
        summary: 'Get the calendar of a feed',
        description:
          'Returns an all-day event for what is due next, for each plant and kind of care that the account sees; what is overdue is an event of today. The calendar has at most 10,000 events. A wrong or ended secret is a 404, also while the account is suspended. The `ETag`, sent as `If-None-Match`, gets a 304 without a body while the calendar is the same.',
        tags: ['care'],
        security: [],
        querystring: CalendarQuery,
        response: {
          200: { description: 'The calendar.', content: { 'text/calendar': { schema: Type.String() } } },
          304: Type.Null({ description: 'The calendar has not changed since the `ETag` in `If-None-Match`.' }),
          ...answers({}, PlantError, [400, 404, 429, 500, 503]),
        },
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply, { query: CalendarQuery })
      const feed = await scripts.read(() => findFeed(request.query.token))
      if (!feed) {
        await guard.slowDown(request)
        throw new ApiError(404, 'unknown_feed', 'There is no such calendar. Check its address, or make another one.')
      }
      readers.enter(reply.raw, networkOf(request.from))
      const text = await textOf(request, feed)
      const tag = hash('sha256', text, 'base64url')
      reply.headers({ etag: `"${tag}"`, 'cache-control': `private, max-age=${maxAgeSeconds}` })
      if (matchesTag(request.headers['if-none-match'], tag)) return reply.code(304).send(null)
      return reply.type('text/calendar; charset=utf-8').send(text)
    },
  )
}
