import { type ApiError, invalidField } from '../errors.ts'
import { controlCharacters, type NameRule, nameProblem } from '../text.ts'
import { isCalendarDay } from '../time.ts'
import { addDays, firstSecondOf, type Schedule } from './due.ts'
import { maxWithinDays } from './due-list.ts'
import type { EventFilter, NewEvent } from './events.ts'
import type { EventFilterQuery, NewCare, NewEvent as SentEvent } from './schemas.ts'

/* The rules for requests that a JSON schema cannot express. */

const secondsPerDay = 86_400
/** No event is later than this day. */
const lastDay = '2999-12-31'

const noteRule: NameRule = {
  longest: 2000,
  ifBlank: 'send 1 to 2,000 characters',
  verb: 'send',
  refused: {
    pattern: /[^\P{Cc}\t\n\r]/u,
    problem: 'has control characters; leave out all but line ends and tabs',
  },
}

const unitRule: NameRule = {
  longest: 32,
  ifBlank: 'send 1 to 32 characters',
  verb: 'send',
  refused: controlCharacters,
}

/** Reads the schedule of a body. @throws ApiError 400 for a day that no year has */
export function readSchedule({ every_days: everyDays, season }: NewCare): Schedule {
  if (!season) return { everyDays, season: null }
  checkDayOfYear('season.from', season.from)
  checkDayOfYear('season.to', season.to)
  return { everyDays, season: { from: season.from, to: season.to, everyDays: season.every_days } }
}

function checkDayOfYear(param: string, day: string): void {
  // 2024 is a leap year.
  if (!isCalendarDay(`2024-${day}`)) throw invalidField(param, 'is a day that no year has; send one such as "11-01"')
}

/**
 * Reads an event of a body, without its plant.
 * @param path the beginning of the names of its fields, such as `[3].`
 * @param now Unix seconds; an event without a time happened now
 * @throws ApiError 400 that names the field
 */
export function readEvent(path: string, sent: SentEvent, now: number): Omit<NewEvent, 'plant'> {
  const { kind, at = now, note, value, unit } = sent
  if (at > now + secondsPerDay) {
    throw invalidField(`${path}at`, 'is more than a day in the future; send the time of the event in Unix seconds')
  }
  return {
    kind,
    at,
    ...(note === undefined ? {} : { note: checked(`${path}note`, note, noteRule) }),
    ...(value === undefined ? {} : { value }),
    ...(unit === undefined ? {} : { unit: checked(`${path}unit`, unit, unitRule) }),
  }
}

function checked(param: string, text: string, rule: NameRule): string {
  const trimmed = text.trim()
  const problem = nameProblem(trimmed, rule)
  if (problem !== undefined) throw invalidField(param, problem)
  return trimmed
}

/** Reads a query that selects events. @param zone the time zone of its days @throws ApiError 400 that names the parameter */
export function readFilter({ kind, from, to }: EventFilterQuery, zone: string | null): EventFilter {
  const filter = {
    kind,
    from: from === undefined ? undefined : readWhen('from', from, (day) => firstSecondOf(zone, day)),
    to: to === undefined ? undefined : readWhen('to', to, (day) => firstSecondOf(zone, addDays(day, 1)) - 1),
  }
  if ((filter.from ?? 0) <= (filter.to ?? Number.POSITIVE_INFINITY)) return filter
  throw invalidParameter('from', 'is later than "to"; send an earlier time')
}

function readWhen(param: string, text: string, secondOf: (day: string) => number): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  if (/^\d{4}-\d{2}-\d{2}$/.test(text) && isCalendarDay(text)) return secondOf(text < lastDay ? text : lastDay)
  throw invalidParameter(param, 'is neither Unix seconds nor a day such as 2026-11-29')
}

/** Reads the parameter `within`. @returns days @throws ApiError 400 */
export function readWithin(within = '0d'): number {
  const days = Number(/^(\d{1,3})d$/.exec(within)?.[1])
  if (days <= maxWithinDays) return days
  throw invalidParameter('within', `is no number of days from 0d to ${maxWithinDays}d; send one such as 3d`)
}

function invalidParameter(param: string, problem: string): ApiError {
  return invalidField(param, problem, 'The query parameter')
}
