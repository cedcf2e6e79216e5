import { invalidField } from './errors.ts'

/** The time in Unix seconds. */
export function unixSeconds(): number {
  return Math.floor(Date.now() / 1000)
}

/** A time for the name of a file, such as `20261120T120000Z`. */
export function timeInName(timeMs: number): string {
  return new Date(timeMs).toISOString().replace(/[-:]|\.\d+/g, '')
}

/** A time: Unix seconds, and the microseconds after the beginning of that second. */
export interface Moment {
  readonly second: number
  readonly microsecond: number
}

/** The millisecond of the last moment, and how many earlier moments had the same millisecond. */
let lastMoment = { milliseconds: Number.NaN, count: 0 }

/**
 * The current time as a moment. Up to 1,000 moments of the same millisecond differ in their microseconds, unless the clock goes
 * back.
 */
export function nextMoment(): Moment {
  const milliseconds = Date.now()
  const count = milliseconds === lastMoment.milliseconds ? Math.min(999, lastMoment.count + 1) : 0
  lastMoment = { milliseconds, count }
  return { second: Math.floor(milliseconds / 1000), microsecond: (milliseconds % 1000) * 1000 + count }
}

/** Whether a text such as `2026-11-20` is an existing day. Date.parse alone would read 30 February as 2 March. */
export function isCalendarDay(day: string): boolean {
  const milliseconds = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(milliseconds) && new Date(milliseconds).toISOString().startsWith(day)
}

/**
 * Reads a day in UTC, such as `2026-11-20`, or a moment with `Z` or an offset, such as `2026-11-20T08:00:00Z`.
 * @param param the name of the parameter or option, for the error
 * @param addedToDay seconds that are added to the beginning of the day if the text is a day
 * @returns Unix seconds, rounded up
 * @throws ApiError 400 that names the parameter
 */
export function readMoment(param: string, text: string, addedToDay = 0): number {
  const [, day = '', time] =
    /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2}))?$/.exec(text) ?? []
  const milliseconds = isCalendarDay(day) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(milliseconds)) {
    throw invalidField(
      param,
      'is not a day or a moment: write it like 2026-11-20 or 2026-11-20T08:00:00Z',
      'The value of',
    )
  }
  return Math.ceil(milliseconds / 1000) + (time === undefined ? addedToDay : 0)
}

const msPerDay = 86_400_000
/** The last result. The next call nearly always has the same day. */
let known = { number: Number.NaN, name: '' }

/** The UTC day of a time, such as `2026-11-20`. */
export function dayOf(timeMs: number): string {
  const number = Math.floor(timeMs / msPerDay)
  if (number !== known.number) known = { number, name: new Date(timeMs).toISOString().slice(0, 10) }
  return known.name
}
