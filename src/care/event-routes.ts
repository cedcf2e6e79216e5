import { Type } from '@sinclair/typebox'
import { callerOf, requireScope } from '../access/guard.ts'
import { eventsAllowed } from '../access/limits-in-force.ts'
import { ApiError, invalidField } from '../errors.ts'
import { setIgnoredHeader } from '../http/ignored-params.ts'
import { answers, type TypedInstance } from '../http/openapi-fields.ts'
import type { Limits } from '../limit-values.ts'
import type { Cursors } from '../plants/cursor.ts'
import { canonicalDigest } from '../plants/idempotency.ts'
import { changeOnce, keyOfRoute } from '../plants/kept-replies.ts'
import type { LongReplies } from '../plants/long-replies.ts'
import { checkedText } from '../plants/plant.ts'
import { csvType } from '../plants/plant-csv.ts'
import { unknownPlant } from '../plants/policy.ts'
import { listOrCsv, PlantError, refusals, security } from '../plants/schemas.ts'
import { query, type Script, type Scripts } from '../storage/scripts.ts'
import {
  addEvents,
  csvOfEvents,
  type EventFilter,
  eventIdOf,
  eventsOf,
  findEvent,
  maxEventsAtOnce,
  type NewEvent as NewLogEvent,
  newEventId,
  removeEvent,
  removeEvents,
} from './events.ts'
import { readEvent, readFilter } from './input.ts'
import { checkPlant, zoneOf } from './rules.ts'
import {
  Event,
  EventFilterQuery,
  EventList,
  EventOfPlant,
  EventOfTag,
  EventPath,
  EventsCsvQuery,
  EventsQuery,
  eventBody,
  NewEvent,
  NewEvents,
  PlantPath,
  RemovedEvents,
} from './schemas.ts'

/** The objects and settings that the routes of events use. */
interface EventOptions {
  readonly scripts: Scripts
  readonly cursors: Cursors
  readonly longReplies: LongReplies
  readonly limits: Limits
}

const defaultLimit = 100
/** The most events that one turn of the event loop adds: some 5 ms. */
const maxEventsInTurn = 50
/** Bodies of many events, as those of many plants. */
const manyBodyLimit = 8 * 1024 ** 2

/** Adds the routes of the logs of plants. */
export function eventRoutes(app: TypedInstance, options: EventOptions): void {
  addNewEventRoute(app, options)
  addNewEventsRoute(app, options)
  addListRoute(app, options)
  addOneEventRoutes(app, options.scripts)
  addRemoveRoute(app, options.scripts)
}

function addNewEventRoute(app: TypedInstance, { scripts, limits }: EventOptions): void {
  app.post(
    '/plants/:id/events',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'addEvent',
        summary: 'Log an event of one of your plants',
        description:
          'Adds what was done, or what was measured, to the log of the plant. An event answers a due date of its kind: the next due date follows from the newest event of the kind, and a snooze ends. With an `Idempotency-Key`, a repeated request adds the event once.',
        tags: ['care'],
        security,
        params: PlantPath,
        body: NewEvent,
        response: answers({ 201: Event }, PlantError, [...refusals, 404, 413, 415, 422, 507]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply, { body: NewEvent })
      const caller = callerOf(request)
      const account = caller.account.id
      const plant = request.params.id
      const idempotency = keyOfRoute(request, canonicalDigest(request.body))
      const eventAt = (now: number) => ({ plant, ...readEvent('', request.body, now) })
      const limit = eventsAllowed(caller, limits)
      const { kept, at, isReplay } = await scripts.write(account, () =>
        changeOnce(account, idempotency, function* (now) {
          const id = newEventId()
          yield* addEvents(account, [{ ...eventAt(now), id }], limit, unknownPlant)
          return id
        }),
      )
      if (isReplay) reply.header('idempotency-replayed', 'true')
      reply.code(201).header('location', `/plants/${plant}/events/${kept}`)
      return { id: kept, ...eventAt(at) }
    },
  )
}

function addNewEventsRoute(app: TypedInstance, { scripts, limits }: EventOptions): void {
  app.post(
    '/events',
    {
      onRequest: requireScope('plants:write'),
      bodyLimit: manyBodyLimit,
      schema: {
        operationId: 'addEvents',
        summary: 'Log events of many of your plants',
        description: `Adds an array of up to ${maxEventsAtOnce} events, or one event to each of up to ${maxEventsAtOnce} plants with a tag: all of them, or none if one is refused. The reply has the events in the order of the array, or of the ids of the plants. With an \`Idempotency-Key\`, a repeated request adds them once.`,
        tags: ['care'],
        security,
        body: NewEvents,
        response: answers({ 201: EventList }, PlantError, [...refusals, 404, 413, 415, 422, 507]),
      },
    },
    async (request, reply) => {
      const { body } = request
      setIgnoredHeader(request, reply, { body: 'tag' in body ? EventOfTag : EventOfPlant })
      const caller = callerOf(request)
      const account = caller.account.id
      const idempotency = keyOfRoute(request, canonicalDigest(body))
      const limit = eventsAllowed(caller, limits)
      const isShort = Array.isArray(body) && body.length <= maxEventsInTurn
      const write = isShort ? scripts.write.bind(scripts) : scripts.writeLong.bind(scripts)
      const { kept, at, isReplay } = await write(account, () =>
        changeOnce(account, idempotency, function* (now) {
          const added: Added = { id: newEventId(), plants: yield* plantsOf(account, body) }
          yield* addEvents(account, eventsIn(body, added, now), limit, unknownPlantAt)
          return JSON.stringify('tag' in body ? added : { id: added.id })
        }),
      )
      if (isReplay) reply.header('idempotency-replayed', 'true')
      const data = eventsIn(body, JSON.parse(kept), at)
      return reply.code(201).send({ object: 'list', data, has_more: false })
    },
  )
}

/** Events that were added together: the beginning of their ids, and the plants with their tag. */
interface Added {
  readonly id: string
  readonly plants?: readonly number[]
}

/** The plants with the tag of a body, by id. @throws ApiError 404 without such a plant, 400 if there are too many */
function* plantsOf(account: number, body: NewEvents): Script<readonly number[]> {
  if (!('tag' in body)) return []
  const tag = checkedText('tag', body.tag)
  const text = 'SELECT id FROM plants WHERE account = $1 AND tag = $2 ORDER BY id LIMIT $3'
  const plants = yield* query<{ id: number }>(text, account, tag, maxEventsAtOnce + 1)
  if (plants.length === 0)
    throw new ApiError(404, 'unknown_tag', 'None of your plants has this tag. GET /plants lists your plants.', {
      param: 'tag',
    })
  if (plants.length <= maxEventsAtOnce) return plants.map(({ id }) => id)
  throw invalidField('tag', `is the tag of more than ${maxEventsAtOnce} plants; send an array of events`)
}

function eventsIn(body: NewEvents, { id, plants = [] }: Added, now: number): (NewLogEvent & { readonly id: string })[] {
  const events =
    'tag' in body
      ? plants.map((plant) => ({ plant, ...readEvent('', body, now) }))
      : body.map((each, index) => ({ plant: each.plant, ...readEvent(`[${index}].`, each, now) }))
  return events.map((event, index) => ({ id: eventIdOf(id, index), ...event }))
}

function unknownPlantAt(index: number): ApiError {
  return invalidField(`[${index}].plant`, 'is not the id of one of your plants; GET /plants?include=id lists them')
}

function addListRoute(app: TypedInstance, { scripts, cursors, longReplies }: EventOptions): void {
  app.get(
    '/plants/:id/events',
    {
      onRequest: requireScope('plants:read'),
      schema: {
        operationId: 'listEvents',
        summary: 'List the events of one of your plants',
        description:
          'Returns the log of the plant, newest first. `from` and `to` belong to the time. If `has_more` is true, the `Link` header has the address of the next page.',
        tags: ['care'],
        security,
        params: PlantPath,
        querystring: EventsQuery,
        response: { 200: listOrCsv(EventList), ...answers({}, PlantError, [...refusals, 404]) },
      },
    },
    async (request, reply) => {
      const account = callerOf(request).account.id
      const plant = request.params.id
      if (request.query.format === 'csv') {
        setIgnoredHeader(request, reply, { query: EventsCsvQuery })
        const selected = await readPeriod(scripts, account, request.query)
        await scripts.read(() => checkPlant(account, plant))
        reply.header('content-disposition', `attachment; filename="events-${plant}.csv"`)
        longReplies.stream(request, reply, csvType, () => csvOfEvents(scripts, account, plant, selected))
        return reply
      }
      setIgnoredHeader(request, reply, { query: EventsQuery })
      const { kind, from, to, limit = defaultLimit, after } = request.query
      const [at, id] = after === undefined ? [] : cursors.readPlace('events', after)
      const place = after === undefined ? undefined : { at: Number(at), id: String(id) }
      const filter = await readPeriod(scripts, account, request.query)
      const found = await scripts.read(() => eventsOf(account, plant, filter, place, limit + 1))
      const shown = found.slice(0, limit)
      const last = shown.at(-1)
      if (last && found.length > limit) {
        const next = cursors.writePlace('events', [last.at, last.id])
        reply.header('link', nextLink(`/plants/${plant}/events`, { kind, from, to, limit, after: next }))
      }
      const data = shown.map((event) => eventBody(plant, event))
      return { object: 'list' as const, data, has_more: found.length > limit }
    },
  )
}

/** Reads a query that selects events. Its days are days in the time zone of the account. */
async function readPeriod(scripts: Scripts, account: number, sent: EventFilterQuery): Promise<EventFilter> {
  return readFilter(sent, await scripts.read(() => zoneOf(account)))
}

function addOneEventRoutes(app: TypedInstance, scripts: Scripts): void {
  app.get(
    '/plants/:id/events/:event',
    {
      onRequest: requireScope('plants:read'),
      schema: {
        operationId: 'getEvent',
        summary: 'Get an event of one of your plants',
        description: 'Returns an event by its id.',
        tags: ['care'],
        security,
        params: EventPath,
        response: answers({ 200: Event }, PlantError, [...refusals, 404]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply)
      const { id, event } = request.params
      return eventBody(id, await scripts.read(() => findEvent(callerOf(request).account.id, id, event)))
    },
  )

  app.delete(
    '/plants/:id/events/:event',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'deleteEvent',
        summary: 'Delete an event of one of your plants',
        description:
          'Deletes the event. If it was the newest of its kind, the due date follows from the event before it.',
        tags: ['care'],
        security,
        params: EventPath,
        response: answers({ 204: Type.Null({ description: 'The event was deleted.' }) }, PlantError, [
          ...refusals,
          404,
          507,
        ]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply)
      const account = callerOf(request).account.id
      const { id, event } = request.params
      await scripts.write(account, () => removeEvent(account, id, event))
      return reply.code(204).send()
    },
  )
}

function addRemoveRoute(app: TypedInstance, scripts: Scripts): void {
  app.delete(
    '/plants/:id/events',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'deleteEvents',
        summary: 'Delete events of one of your plants',
        description:
          'Deletes the events of a kind, of a time, or both, oldest first and in short transactions: after an interruption, send the request again. The due dates follow from the events that are left. At least one parameter is needed.',
        tags: ['care'],
        security,
        params: PlantPath,
        querystring: EventFilterQuery,
        response: answers({ 200: RemovedEvents }, PlantError, [...refusals, 404, 507]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply, { query: EventFilterQuery })
      const account = callerOf(request).account.id
      const { kind, from, to } = request.query
      if ((kind ?? from ?? to) === undefined) throw unselected()
      const filter = await readPeriod(scripts, account, request.query)
      return { deleted: await removeEvents(scripts, account, request.params.id, filter) }
    },
  )
}

function unselected(): ApiError {
  const message =
    'The query selects no events. Send "kind", "from" or "to", such as ?to=2026-11-29 for all events to a day.'
  return new ApiError(400, 'missing_field', message, { param: 'kind' })
}

/** The `Link` header (RFC 8288) of a page that has a next page. @param query its parameters; undefined ones are left out */
export function nextLink(path: string, query: Readonly<Record<string, string | number | undefined>>): string {
  const sent = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, `${value}`]]))
  return `<${path}?${new URLSearchParams(sent)}>; rel="next"`
}
