import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import { callerOf, type Guard, requireScope } from '../access/guard.ts'
import { setIgnoredHeader } from '../http/ignored-params.ts'
import { answers, type TypedInstance } from '../http/openapi-fields.ts'
import type { Limits } from '../limit-values.ts'
import { Cursors } from '../plants/cursor.ts'
import { openPlantsGroup } from '../plants/group.ts'
import { LongReplies } from '../plants/long-replies.ts'
import type { PlantStore } from '../plants/plant.ts'
import { PlantError, refusals, security } from '../plants/schemas.ts'
import type { Scripts } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'
import { addDays, civilDay } from './due.ts'
import { type DuePlace, readDue } from './due-list.ts'
import { eventRoutes, nextLink } from './event-routes.ts'
import { readSchedule, readWithin } from './input.ts'
import { removeRule, rulesOf, setRule, snooze, zoneOf } from './rules.ts'
import {
  Care,
  CareList,
  CarePath,
  careBody,
  DueList,
  DueQuery,
  dueBody,
  NewCare,
  PlantPath,
  Snooze,
} from './schemas.ts'

/** The objects and settings that the routes of care use. */
export interface CareOptions {
  readonly scripts: Scripts
  readonly store: PlantStore
  readonly guard: Guard
  /** The limits of accounts without limits of their own. */
  readonly limits: Limits
}

const defaultLimit = 100

/** The routes of care: how often a plant needs it, what was done, and what is due. */
export const carePlugin: FastifyPluginAsyncTypebox<CareOptions> = async (app, { scripts, store, guard, limits }) => {
  await openPlantsGroup(app, guard)
  const cursors = new Cursors(await store.cursorKey())
  addRuleRoutes(app, scripts)
  addSnoozeRoute(app, scripts)
  addDueRoute(app, scripts, cursors)
  eventRoutes(app, { scripts, cursors, limits, longReplies: new LongReplies(store, guard) })
}

function addRuleRoutes(app: TypedInstance, scripts: Scripts): void {
  app.get(
    '/plants/:id/care',
    {
      onRequest: requireScope('plants:read'),
      schema: {
        operationId: 'listCare',
        summary: 'List the care of one of your plants',
        description: 'Returns how often the plant needs each kind of care, by kind, and when each is due.',
        tags: ['care'],
        security,
        params: PlantPath,
        response: answers({ 200: CareList }, PlantError, [...refusals, 404]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply)
      const rules = await scripts.read(() => rulesOf(callerOf(request).account.id, request.params.id))
      return { object: 'list' as const, data: rules.map(careBody), has_more: false as const }
    },
  )

  app.put(
    '/plants/:id/care/:kind',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'putCare',
        summary: 'Set how often one of your plants needs a kind of care',
        description:
          'Replaces the schedule of this kind, or adds it. The due date is the first day after the last event of this kind that is at least `every_days` after it; in the season, the interval of the season counts, and in a pause nothing is due. Without an event, it is the day on which the schedule was set. A plant has at most 50 kinds of care.',
        tags: ['care'],
        security,
        params: CarePath,
        body: NewCare,
        response: answers({ 200: Care, 201: Care }, PlantError, [...refusals, 404, 409, 413, 415, 507]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply, { body: NewCare })
      const account = callerOf(request).account.id
      const { id, kind } = request.params
      const schedule = readSchedule(request.body)
      const now = unixSeconds()
      const { rule, isNew } = await scripts.write(account, () => setRule(account, id, kind, schedule, now))
      if (isNew) reply.code(201).header('location', `/plants/${id}/care/${kind}`)
      return careBody(rule)
    },
  )

  app.delete(
    '/plants/:id/care/:kind',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'deleteCare',
        summary: 'End a kind of care of one of your plants',
        description: 'Deletes the schedule. The events of this kind stay in the log.',
        tags: ['care'],
        security,
        params: CarePath,
        response: answers({ 204: Type.Null({ description: 'The schedule was deleted.' }) }, PlantError, [
          ...refusals,
          404,
          507,
        ]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply)
      const account = callerOf(request).account.id
      const { id, kind } = request.params
      await scripts.write(account, () => removeRule(account, id, kind))
      return reply.code(204).send()
    },
  )
}

function addSnoozeRoute(app: TypedInstance, scripts: Scripts): void {
  app.post(
    '/plants/:id/care/:kind/snooze',
    {
      onRequest: requireScope('plants:write'),
      schema: {
        operationId: 'snoozeCare',
        summary: 'Put off a kind of care of one of your plants',
        description:
          'Moves the due date to today and this number of days, unless it is later already. The next event of this kind ends the snooze, and another snooze replaces it.',
        tags: ['care'],
        security,
        params: CarePath,
        body: Snooze,
        response: answers({ 200: Care }, PlantError, [...refusals, 404, 413, 415, 507]),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply, { body: Snooze })
      const account = callerOf(request).account.id
      const { id, kind } = request.params
      const now = unixSeconds()
      return careBody(await scripts.write(account, () => snooze(account, id, kind, request.body.days, now)))
    },
  )
}

function addDueRoute(app: TypedInstance, scripts: Scripts, cursors: Cursors): void {
  app.get(
    '/care/due',
    {
      onRequest: requireScope('plants:read'),
      schema: {
        operationId: 'listDue',
        summary: 'List the care that is due',
        description:
          'Returns what is due today, what is overdue, and what is due `within` the next days, for your own plants and those that others share with you, by date, plant and kind. Archived plants are left out. A due date is a day in the time zone of the account that owns the plant; today is the day in the time zone of your account. If `has_more` is true, the `Link` header has the address of the next page.',
        tags: ['care'],
        security,
        querystring: DueQuery,
        response: answers({ 200: DueList }, PlantError, refusals),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply, { query: DueQuery })
      const account = callerOf(request).account.id
      const { within, limit = defaultLimit, after } = request.query
      const days = readWithin(within)
      const place = after === undefined ? undefined : placeOf(cursors.readPlace('due', after))
      const today = civilDay(await scripts.read(() => zoneOf(account)), unixSeconds())
      const found = await readDue(scripts, account, addDays(today, days), place, limit + 1)
      const shown = found.slice(0, limit)
      const last = shown.at(-1)
      if (last && found.length > limit) {
        const cursor = cursors.writePlace('due', [last.due, last.plant, last.kind, last.account])
        reply.header('link', nextLink('/care/due', { within, limit, after: cursor }))
      }
      const data = shown.map((rule) => ({
        ...(rule.account === account ? { plant: rule.plant } : {}),
        name: rule.name,
        ...dueBody(rule, today),
      }))
      return { object: 'list' as const, data, has_more: found.length > limit }
    },
  )
}

function placeOf([due, plant, kind, account]: readonly (string | number)[]): DuePlace {
  return { due: String(due), plant: Number(plant), kind: String(kind), account: Number(account) }
}
