import { type Static, Type } from '@sinclair/typebox'
import { overdueDays } from './due.ts'
import { type DueRule, maxWithinDays } from './due-list.ts'
import { type CareEvent, maxEventsAtOnce } from './events.ts'
import { type Rule, scheduleOf } from './rules.ts'

/** The most days of an interval and of a snooze. */
const maxInterval = 3650
const maxSnooze = 366

const once = { errorMessage: 'send it once' }

const kind = Type.String({
  description:
    'The kind of care: `water`, `feed`, `mist`, `repot`, `prune`, `rotate`, `clean`, or a word of your own, of 1 to 32 lower-case letters, digits, `_` and `-`, a letter first.',
  pattern: '^[a-z][a-z0-9_-]{0,31}$',
  errorMessage: 'send a word such as "water": 1 to 32 lower-case letters, digits, "_" and "-", a letter first',
  examples: ['water'],
})

const plantId = Type.Integer({
  examples: [7],
  minimum: Number.MIN_SAFE_INTEGER,
  maximum: Number.MAX_SAFE_INTEGER,
  errorMessage: 'send a whole number from -(2^53-1) to 2^53-1',
})

export const PlantPath = Type.Object({ id: plantId })
export const CarePath = Type.Object({ id: plantId, kind })
export const EventPath = Type.Object({ id: plantId, event: Type.String({ description: 'The `id` of an event.' }) })

const date = (description: string) => Type.String({ description, format: 'date', examples: ['2026-11-29'] })
const orNull = (type: string, description: string, format?: string) =>
  Type.Unsafe<string | number | null>({
    type: [type, 'null'],
    description,
    ...(format === undefined ? {} : { format }),
  })

const interval = Type.Integer({
  description: 'The number of days from one event to the next due date.',
  minimum: 1,
  maximum: maxInterval,
  errorMessage: `send a whole number of days from 1 to ${maxInterval}`,
  examples: [7],
})

const dayOfYear = (description: string, example: string) =>
  Type.String({
    description,
    pattern: '^\\d{2}-\\d{2}$',
    errorMessage: 'send a month and a day, such as "11-01"',
    examples: [example],
  })

const Season = Type.Object(
  {
    from: dayOfYear('The first day of the season, `MM-DD`.', '11-01'),
    to: dayOfYear(
      'The last day of the season, which may be after the new year. `02-29` is a day of leap years only.',
      '02-28',
    ),
    every_days: Type.Unsafe<number | null>({
      ...Type.Union([interval, Type.Null()]),
      description: 'The interval in the season; null for a pause, in which nothing is due.',
      errorMessage: `send a whole number of days from 1 to ${maxInterval}, or null for a pause`,
      examples: [14],
    }),
  },
  { title: 'Season', errorMessage: 'send an object with "from", "to" and "every_days", or leave it out' },
)

/** How often a plant needs a kind of care, in requests. */
export const NewCare = Type.Object(
  { every_days: interval, season: Type.Optional(Season) },
  { title: 'NewCare', examples: [{ every_days: 7, season: { from: '11-01', to: '02-28', every_days: 14 } }] },
)
export type NewCare = Static<typeof NewCare>

export const Snooze = Type.Object(
  {
    days: Type.Integer({
      description: 'The due date is not before today and this number of days.',
      minimum: 1,
      maximum: maxSnooze,
      errorMessage: `send a whole number of days from 1 to ${maxSnooze}`,
      examples: [2],
    }),
  },
  { title: 'Snooze', examples: [{ days: 2 }] },
)

/** How often a plant needs a kind of care, in replies. */
export const Care = Type.Object(
  {
    kind,
    every_days: interval,
    season: Type.Optional(Season),
    last: orNull('integer', 'The time of the last event of this kind in Unix seconds; null without an event.'),
    due: orNull('string', 'The due date in the time zone of the account; null in a pause of all year.', 'date'),
    snoozed_until: Type.Optional(date('The first day after a snooze, until the next event.')),
  },
  {
    title: 'Care',
    examples: [{ kind: 'water', every_days: 7, last: 1764000000, due: '2026-11-29' }],
  },
)

export const CareList = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(Care), has_more: Type.Literal(false) },
  { title: 'CareList' },
)

const dueFields = {
  kind,
  due: date('The due date, in the time zone of the account that owns the plant.'),
  overdue_days: Type.Integer({
    description: 'How many days the due date is before today, in the time zone of your account; 0 from today on.',
    minimum: 0,
  }),
  last: orNull('integer', 'The time of the last event of this kind in Unix seconds; null without an event.'),
}

/** A due date of a known plant. */
export const DueOfPlant = Type.Object(dueFields, {
  title: 'DueOfPlant',
  examples: [{ kind: 'water', due: '2026-11-29', overdue_days: 2, last: 1764000000 }],
})

const Due = Type.Object(
  {
    plant: Type.Optional({ ...plantId, description: 'The id of the plant; only for your own plants.' }),
    name: Type.String({ description: 'The name of the plant.' }),
    ...dueFields,
  },
  {
    title: 'Due',
    examples: [{ plant: 7, name: 'Monstera', kind: 'water', due: '2026-11-29', overdue_days: 2, last: 1764000000 }],
  },
)

export const DueList = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(Due), has_more: Type.Boolean() },
  { title: 'DueList' },
)

const limit = Type.Optional(
  Type.Integer({
    description: 'The maximum number of entries; the default is 100.',
    minimum: 1,
    maximum: 1000,
    errorMessage: 'send a whole number from 1 to 1000, once',
    examples: [20],
  }),
)
const after = Type.Optional(
  Type.String({ description: 'The cursor of the next page, from the `Link` header of the previous reply.', ...once }),
)

export const DueQuery = Type.Object({
  within: Type.Optional(
    Type.String({
      description: `How many days from today on belong to the list, such as \`3d\`; the default is \`0d\`, the most \`${maxWithinDays}d\`.`,
      ...once,
      examples: ['3d'],
    }),
  ),
  limit,
  after,
})

const when = (which: string) =>
  Type.Optional(
    Type.String({
      description: `The ${which} second or day of the events: Unix seconds, or a day such as \`2026-11-29\` in the time zone of the account.`,
      ...once,
    }),
  )

/** Selects events for their removal. */
export const EventFilterQuery = Type.Object({
  kind: Type.Optional(kind),
  from: when('first'),
  to: when('last'),
})
export type EventFilterQuery = Static<typeof EventFilterQuery>

/** The query of a list of events as CSV. */
export const EventsCsvQuery = Type.Object({
  ...EventFilterQuery.properties,
  format: Type.Optional(
    Type.Literal('csv', {
      description: '`csv` gives all selected events as a CSV file; `limit` and `after` have no effect.',
      errorMessage: 'send "csv", once',
    }),
  ),
})

export const EventsQuery = Type.Object({
  ...EventsCsvQuery.properties,
  limit,
  after,
})

const eventFields = {
  kind,
  at: Type.Optional(
    Type.Integer({
      description: 'The time of the event in Unix seconds, at most a day in the future; the default is now.',
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      errorMessage: 'send Unix seconds, a whole number from 0, not in quotes',
      examples: [1764000000],
    }),
  ),
  note: Type.Optional(
    Type.String({
      description: 'A note of 1 to 2,000 characters, without control characters except line ends and tabs.',
      errorMessage: 'send a text',
      examples: ['New leaf'],
    }),
  ),
  value: Type.Optional(
    Type.Number({ description: 'A measured value.', errorMessage: 'send a number, not in quotes', examples: [41.5] }),
  ),
  unit: Type.Optional(
    Type.String({
      description: 'The unit of the value: 1 to 32 characters, no control characters.',
      errorMessage: 'send a text such as "%"',
      examples: ['%'],
    }),
  ),
}

/** An event in requests. */
export const NewEvent = Type.Object(eventFields, {
  title: 'NewEvent',
  examples: [
    { kind: 'water', at: 1764000000 },
    { kind: 'moisture', value: 41.5, unit: '%' },
  ],
})
export type NewEvent = Static<typeof NewEvent>

/** An event of a plant, in requests for many plants. */
export const EventOfPlant = Type.Object({ plant: plantId, ...eventFields }, { title: 'EventOfPlant' })
export type EventOfPlant = Static<typeof EventOfPlant>

/** The same event for all plants with a tag. */
export const EventOfTag = Type.Object(
  {
    tag: Type.String({ description: 'The tag of your plants.', errorMessage: 'send a text', examples: ['aroid'] }),
    ...eventFields,
  },
  { title: 'EventOfTag' },
)
export type EventOfTag = Static<typeof EventOfTag>

export const NewEvents = Type.Union(
  [
    Type.Array(EventOfPlant, {
      minItems: 1,
      maxItems: maxEventsAtOnce,
      errorMessage: `send an array of 1 to ${maxEventsAtOnce} events, or one object with "tag" and "kind"`,
    }),
    EventOfTag,
  ],
  { examples: [[{ plant: 7, kind: 'water' }], { tag: 'aroid', kind: 'water' }] },
)

export type NewEvents = Static<typeof NewEvents>

/** An event in replies. */
export const Event = Type.Object(
  {
    id: Type.String({ description: 'The id for `/plants/{id}/events/{event}`.' }),
    plant: plantId,
    ...eventFields,
    at: Type.Integer({ description: 'The time of the event in Unix seconds.' }),
  },
  {
    title: 'Event',
    examples: [{ id: '019ac7d2-5b1e-7c11-9f5e-2f6d1c0b8a7e', plant: 7, kind: 'water', at: 1764000000 }],
  },
)

export const EventList = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(Event), has_more: Type.Boolean() },
  { title: 'EventList' },
)

export const RemovedEvents = Type.Object(
  { deleted: Type.Integer({ description: 'How many events were deleted.', minimum: 0 }) },
  { title: 'RemovedEvents', examples: [{ deleted: 3 }] },
)

/** A rule as replies show it. */
export function careBody(rule: Rule): Static<typeof Care> {
  const { everyDays, season } = scheduleOf(rule)
  return {
    kind: rule.kind,
    every_days: everyDays,
    ...(season ? { season: { from: season.from, to: season.to, every_days: season.everyDays } } : {}),
    last: rule.last,
    due: rule.due,
    ...(rule.notBefore === null ? {} : { snoozed_until: rule.notBefore }),
  }
}

/** A due date as replies show it. @param today the day in the time zone of the caller */
export function dueBody({ kind, due, last }: Pick<DueRule, 'kind' | 'due' | 'last'>, today: string) {
  return { kind, due, overdue_days: overdueDays(due, today), last }
}

/** An event as replies show it. */
export function eventBody(plant: number, { id, kind, at, note, value, unit }: CareEvent): Static<typeof Event> {
  return {
    id,
    plant,
    kind,
    at,
    ...(note === null ? {} : { note }),
    ...(value === null ? {} : { value }),
    ...(unit === null ? {} : { unit }),
  }
}
