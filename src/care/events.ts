import { randomInt, randomUUIDv7 } from 'node:crypto'
import { loadCsvWriter } from '../csv.ts'
import { ApiError } from '../errors.ts'
import { type Prunable, pruneOnce } from '../storage/prune.ts'
import { joined, queryEach, rowOf, rowsOf, type Script, type Scripts, type Statement, sql } from '../storage/scripts.ts'
import { checkPlant, newestEvent, type Rule, ruleColumns, rulesOf, saveRules, zoneOf } from './rules.ts'

/*
 * The log of a plant: what was done, and what was measured. The events of a plant belong to its log, and the row of the log loses
 * the plant when the plant is deleted. Nothing reads these events then, and they are removed in portions.
 */

/** An event to add. */
export interface NewEvent {
  readonly plant: number
  readonly kind: string
  /** Unix seconds. */
  readonly at: number
  readonly note?: string
  readonly value?: number
  readonly unit?: string
}

/** An event of a plant's log. */
export interface CareEvent {
  readonly id: string
  readonly at: number
  readonly kind: string
  readonly note: string | null
  readonly value: number | null
  readonly unit: string | null
}

/** Selects events of a log. */
export interface EventFilter {
  readonly kind?: string | undefined
  /** The first and the last Unix second. */
  readonly from?: number | undefined
  readonly to?: number | undefined
}

/** A place in a log, which is sorted by time and id. */
export type EventPlace = Pick<CareEvent, 'at' | 'id'>

/** The most events that one request adds. */
export const maxEventsAtOnce = 1000
const eventsPerPortion = 200

/** Makes the id of some events that are added together. Ids of later events are greater. */
export function newEventId(): string {
  return randomUUIDv7()
}

/** The id of one of some events that are added together. */
export function eventIdOf(base: string, index: number): string {
  return `${base}-${String(index).padStart(3, '0')}`
}

/**
 * Adds events to the logs of an account's plants, and works out the due dates that they answer.
 * @param limit how many events the account may have; by default any number
 * @param refuse makes the error for the index of an event whose plant does not exist
 * @throws ApiError 429 when the limit is reached
 */
export function* addEvents(
  account: number,
  events: readonly (NewEvent & { readonly id: string })[],
  limit: number | undefined,
  refuse: (index: number) => ApiError,
): Script<void> {
  const plants = [...new Set(events.map(({ plant }) => plant))]
  const logs = yield* logsOf(account, plants)
  const unknown = events.findIndex(({ plant }) => !logs.has(plant))
  if (unknown !== -1) throw refuse(unknown)
  if (limit !== undefined) checkEventsLimit(limit, yield* countEvents(account), events.length)
  const answered = yield* answeredRules(account, events)
  const zone = yield* zoneOf(account)

  // The number of a log is random: PostgreSQL assigns none, and a counter would be a lock for all accounts.
  const newLogs = plants.flatMap((plant) => (logs.get(plant) === null ? [{ plant, log: randomInt(2 ** 48 - 1) }] : []))
  for (const { plant, log } of newLogs) logs.set(plant, log)
  yield* queryEach(
    'INSERT INTO care_logs (log, owner, account, plant) VALUES ($1, $2, $2, $3)',
    newLogs.map(({ plant, log }) => [log, account, plant]),
  )
  yield* queryEach(
    'INSERT INTO care_events (log, id, at, kind, note, value, unit) VALUES ($1, $2, $3, $4, $5, $6, $7)',
    events.map(({ plant, id, at, kind, note = null, value = null, unit = null }) => [
      logs.get(plant) ?? null,
      id,
      at,
      kind,
      note,
      value,
      unit,
    ]),
  )
  yield* changeCount(account, events.length)
  yield* saveRules(account, zone, answered)
}

/** The logs of plants; null for a plant without a log. A plant that does not exist is left out. */
function* logsOf(account: number, plants: readonly number[]): Script<Map<number, number | null>> {
  const rows = yield* queryEach<{ plant: number; log: number | null }>(
    // A LEFT JOIN would take SQLite five times as long.
    `SELECT id AS plant, (SELECT log FROM care_logs WHERE account = $1 AND plant = $2) AS log
    FROM plants WHERE account = $1 AND id = $2`,
    plants.map((plant) => [account, plant]),
  )
  return new Map(rows.map(({ plant, log }) => [plant, log]))
}

/** The rules whose last event is among these events, with that event. A snooze ends with it. */
function* answeredRules(account: number, events: readonly NewEvent[]): Script<readonly Rule[]> {
  const newest = new Map<string, NewEvent>()
  for (const event of events) {
    const key = `${event.plant} ${event.kind}`
    if (event.at >= (newest.get(key)?.at ?? 0)) newest.set(key, event)
  }
  const rules = yield* queryEach<Rule>(
    `SELECT ${ruleColumns} FROM care_rules WHERE account = $1 AND plant = $2 AND kind = $3`,
    [...newest.values()].map(({ plant, kind }) => [account, plant, kind]),
  )
  return rules.flatMap((rule) => {
    const last = newest.get(`${rule.plant} ${rule.kind}`)?.at ?? 0
    return last >= (rule.last ?? 0) ? [{ ...rule, last, notBefore: null }] : []
  })
}

/** How many events the account has. Events of deleted plants count until they are removed. */
export function* countEvents(account: number): Script<number> {
  const row = yield* rowOf<{ events: number }>(sql`SELECT events FROM holdings WHERE account = ${account}`)
  return row?.events ?? 0
}

function changeCount(account: number, change: number): Script<unknown> {
  return rowsOf(sql`
    INSERT INTO holdings (account, events) VALUES (${account}, ${change})
    ON CONFLICT (account) DO UPDATE SET events = holdings.events + excluded.events`)
}

function checkEventsLimit(limit: number, count: number, added: number): void {
  if (count + added <= limit) return
  const message = `The limit "events" of ${limit} would be passed: the account has ${count} events. Delete events, or ask the operator for a higher limit.`
  throw new ApiError(429, 'events_limit', message)
}

/**
 * The events of a plant, newest first.
 * @param after only events after this one in the list
 * @throws ApiError 404 for an unknown plant
 */
export function* eventsOf(
  account: number,
  plant: number,
  filter: EventFilter,
  after: EventPlace | undefined,
  limit: number,
): Script<readonly CareEvent[]> {
  yield* checkPlant(account, plant)
  const next = after ? [sql`(at, id) < (${after.at}, ${after.id})`] : []
  return yield* rowsOf(sql`
    SELECT id, at, kind, note, value, unit FROM care_events
    WHERE ${joined([...conditionsOf(account, plant, filter), ...next], ' AND ')}
    ORDER BY at DESC, id DESC LIMIT ${limit}`)
}

/** The columns of a CSV file with events. */
const csvColumns = ['id', 'at', 'kind', 'note', 'value', 'unit'] as const

/** The selected events of a plant as the texts of a CSV file, newest first. @throws ApiError 404 for an unknown plant */
export async function* csvOfEvents(
  scripts: Scripts,
  account: number,
  plant: number,
  filter: EventFilter,
): AsyncGenerator<string> {
  const write = await loadCsvWriter()
  yield write([csvColumns])
  for (let after: EventPlace | undefined; ; ) {
    const from = after
    const events = await scripts.readPortion(() => eventsOf(account, plant, filter, from, eventsPerPortion))
    after = events.at(-1)
    if (!after) return
    yield write(events.map((event) => csvColumns.map((name) => event[name])))
  }
}

/** One event of a plant. @throws ApiError 404 for an unknown plant or event */
export function* findEvent(account: number, plant: number, id: string): Script<CareEvent> {
  yield* checkPlant(account, plant)
  // PostgreSQL takes no text with this character.
  if (id.includes('\0')) throw unknownEvent()
  const found = yield* rowOf<CareEvent>(sql`
    SELECT id, at, kind, note, value, unit FROM care_events
    WHERE ${joined(conditionsOf(account, plant, {}), ' AND ')} AND id = ${id}`)
  if (!found) throw unknownEvent()
  return found
}

/** Removes an event, and works out the due date of its kind again. @throws ApiError 404 for an unknown plant or event */
export function* removeEvent(account: number, plant: number, id: string): Script<void> {
  const { kind } = yield* findEvent(account, plant, id)
  yield* rowsOf(sql`DELETE FROM care_events WHERE ${joined(conditionsOf(account, plant, {}), ' AND ')} AND id = ${id}`)
  yield* changeCount(account, -1)
  yield* renewRules(account, plant, [kind])
}

/**
 * Removes events of a plant in short transactions, oldest first, and works out the due dates again.
 * @returns how many events were removed
 * @throws ApiError 404 for an unknown plant
 */
export async function removeEvents(
  scripts: Scripts,
  account: number,
  plant: number,
  filter: EventFilter,
): Promise<number> {
  let removed = 0
  for (;;) {
    const count = await scripts.write(account, () => removePortion(account, plant, filter))
    removed += count
    if (count < eventsPerPortion) return removed
  }
}

function* removePortion(account: number, plant: number, filter: EventFilter): Script<number> {
  yield* checkPlant(account, plant)
  const conditions = conditionsOf(account, plant, filter)
  const removed = yield* rowsOf<{ kind: string }>(sql`
    DELETE FROM care_events WHERE ${joined(conditionsOf(account, plant, {}), ' AND ')} AND id IN (
      SELECT id FROM care_events WHERE ${joined(conditions, ' AND ')} ORDER BY at, id LIMIT ${eventsPerPortion}
    ) RETURNING kind`)
  if (removed.length === 0) return 0
  yield* changeCount(account, -removed.length)
  yield* renewRules(account, plant, [...new Set(removed.map(({ kind }) => kind))])
  return removed.length
}

/** Works out the due dates of some kinds again, after events were removed. */
function* renewRules(account: number, plant: number, kinds: readonly string[]): Script<void> {
  const rules = (yield* rulesOf(account, plant)).filter(({ kind }) => kinds.includes(kind))
  const renewed: Rule[] = []
  for (const rule of rules) renewed.push({ ...rule, last: yield* newestEvent(account, plant, rule.kind) })
  yield* saveRules(account, yield* zoneOf(account), renewed)
}

function conditionsOf(account: number, plant: number, { kind, from, to }: EventFilter): readonly Statement[] {
  return [
    sql`log = (SELECT log FROM care_logs WHERE account = ${account} AND plant = ${plant})`,
    ...(kind === undefined ? [] : [sql`kind = ${kind}`]),
    ...(from === undefined ? [] : [sql`at >= ${from}`]),
    ...(to === undefined ? [] : [sql`at <= ${to}`]),
  ]
}

/** The events of deleted plants, as entries to remove. */
export function leftEvents(scripts: Scripts): Prunable {
  const find = () => rowOf<LeftLog>(sql`SELECT log, owner FROM care_logs WHERE plant IS NULL ORDER BY log LIMIT 1`)
  return {
    async prune(_before, max) {
      const left = await scripts.read(find)
      // If nothing is left, the write lock is not taken.
      return left ? await scripts.writeAside(() => removeLeft(left, max)) : 0
    },
  }
}

/** Removes all events of deleted plants, in short transactions. If that fails, the service removes them later. */
export async function removeAllLeftEvents(scripts: Scripts): Promise<void> {
  await pruneOnce(leftEvents(scripts), 0).catch(() => undefined)
}

/** The log of a deleted plant. */
interface LeftLog {
  readonly log: number
  /** The account that the plant belonged to. */
  readonly owner: number
}

function* removeLeft({ log, owner }: LeftLog, max: number): Script<number> {
  // This locks the log in PostgreSQL, so that two replicas do not remove the same events.
  yield* rowsOf(sql`UPDATE care_logs SET plant = NULL WHERE log = ${log}`)
  const { length } = yield* rowsOf(sql`
    DELETE FROM care_events WHERE log = ${log} AND id IN (SELECT id FROM care_events WHERE log = ${log} LIMIT ${max})
    RETURNING log`)
  yield* rowsOf(sql`UPDATE holdings SET events = events - ${length} WHERE account = ${owner}`)
  if (length === max) return length
  yield* rowsOf(sql`DELETE FROM care_logs WHERE log = ${log}`)
  return length + 1
}

function unknownEvent(): ApiError {
  return new ApiError(
    404,
    'unknown_event',
    'The plant has no event with this id. GET /plants/{id}/events lists its events.',
  )
}
