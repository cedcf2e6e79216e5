import { dayOf } from '../time.ts'

/*
 * Due dates. A day is a civil day in the time zone of an account, written as 2026-11-28. So summer time moves no due date.
 */

/** A part of each year. Both ends belong to it, it may go across the new year, and `02-29` is a day of leap years only. */
export interface Season {
  /** The first day, such as `11-01`. */
  readonly from: string
  /** The last day. */
  readonly to: string
  /** The interval in the season. Null is a pause: no day of the season is due. */
  readonly everyDays: number | null
}

/** How often a plant needs a kind of care. */
export interface Schedule {
  readonly everyDays: number
  readonly season: Season | null
}

/** What a due date depends on. */
export interface DueFacts extends Schedule {
  /** The day on which the schedule was set. */
  readonly setOn: string
  /** The day of the last event; null without an event. */
  readonly last: string | null
  /** The first day after a snooze; null without a snooze. */
  readonly notBefore: string | null
}

const msPerDay = 86_400_000
/** Two leap years are at most eight years apart, as 2096 and 2104. So a day that is not in a pause follows within eight years. */
const maxYearsOfPause = 8

/**
 * The due date: the first day after the last event whose distance from the event is at least the interval in force on that day.
 * Without an event, it is the day on which the schedule was set; in a pause, the first day after the pause. A snooze only moves
 * the due date, and may move it into a pause.
 * @returns null if all days are in the pause
 */
export function dueDate(facts: DueFacts): string | null {
  const due = firstDueDay(facts)
  if (due === null || facts.notBefore === null) return due
  return facts.notBefore > due ? facts.notBefore : due
}

/** The first due day can only be a day on which an interval has passed, or on which another interval begins to be in force. */
function firstDueDay(facts: DueFacts): string | null {
  const { everyDays, season, last, setOn } = facts
  const intervals = last === null ? [0] : [everyDays, season?.everyDays ?? everyDays]
  const passed = intervals.map((interval) => addDays(last ?? setOn, interval)).sort()
  const [earliest = setOn, latest = earliest] = passed
  if (!season) return earliest
  const dayAfterSeason = addDays(`2024-${season.to}`, 1).slice(5)
  for (let year = yearOf(earliest); year <= yearOf(latest) + maxYearsOfPause; year++) {
    // In a year without 29 February, `addDays` reads it as 1 March.
    const changes = [season.from, dayAfterSeason].map((day) => addDays(`${year}-${day}`, 0))
    const days = [...passed, ...changes].filter((day) => day.startsWith(`${year}`) && day >= earliest)
    const [due] = days.filter((day) => isDue(day, facts)).sort()
    if (due !== undefined) return due
  }
  return null
}

/** Whether a day is far enough after the last event, and not in a pause. */
function isDue(day: string, { everyDays, season, last }: DueFacts): boolean {
  const interval = season && isInSeason(day, season) ? season.everyDays : everyDays
  return interval !== null && (last === null || daysBetween(last, day) >= interval)
}

function isInSeason(day: string, { from, to }: Season): boolean {
  const dayOfYear = day.slice(5)
  return from <= to ? from <= dayOfYear && dayOfYear <= to : from <= dayOfYear || dayOfYear <= to
}

/** The day that is some days after a day. A day that does not exist, such as 30 February, is read as one of the next month. */
export function addDays(day: string, days: number): string {
  return dayOf(Date.parse(`${day}T00:00:00Z`) + days * msPerDay)
}

/** The number of days from a day to a later day; negative for an earlier day. */
export function daysBetween(day: string, later: string): number {
  return (Date.parse(`${later}T00:00:00Z`) - Date.parse(`${day}T00:00:00Z`)) / msPerDay
}

/** How many days a due date is before today; 0 from today on. */
export function overdueDays(due: string, today: string): number {
  return Math.max(0, daysBetween(due, today))
}

function yearOf(day: string): number {
  return Number(day.slice(0, 4))
}

/** The formats of the zones of accounts. To make one takes longer than to use it ten times. */
const formats = new Map<string, Intl.DateTimeFormat>()
const writtenDay = { year: 'numeric', month: '2-digit', day: '2-digit' } as const

/** The civil day of a moment. @param zone a time zone of the IANA database; null for UTC @param second Unix seconds */
export function civilDay(zone: string | null, second: number): string {
  if (zone === null) return dayOf(second * 1000)
  const known = formats.get(zone)
  const format = known ?? new Intl.DateTimeFormat('en-US', { timeZone: zone, calendar: 'gregory', ...writtenDay })
  if (!known) formats.set(zone, format)
  const parts = new Map(format.formatToParts(second * 1000).map(({ type, value }) => [type, value]))
  return `${parts.get('year')}-${parts.get('month')}-${parts.get('day')}`
}

/** The first Unix second of a civil day. In a zone that has skipped this day, the first second of the next day. */
export function firstSecondOf(zone: string | null, day: string): number {
  const inUtc = Date.parse(`${day}T00:00:00Z`) / 1000
  // Zones differ from UTC by less than a day.
  let [before, after] = [inUtc - 86_400, inUtc + 86_400]
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2)
    if (civilDay(zone, middle) < day) before = middle
    else after = middle
  }
  return after
}
