import { invalidField } from './errors.ts'

/** The time now, Unix seconds. */
export function unixSeconds(): number {
  return Math.floor(Date.now() / 1000)
}

/** A time in milliseconds as names of files have it: `20261120T120000Z`. */
export function timeInName(time: number): string {
  return new Date(time).toISOString().replace(/[-:]|\.\d+/g, '')
}

/** A moment: Unix seconds, and microseconds of that second. */
export interface Moment {
  readonly second: number
  readonly microsecond: number
}

/** The millisecond that was asked for last, and how many moments it has had. */
let lastMoment = { milliseconds: Number.NaN, count: 0 }

/** Now, as a moment that no other has had in this process: the clock knows milliseconds, and those who come in one are counted. */
export function nextMoment(): Moment {
  const milliseconds = Date.now()
  const count = milliseconds === lastMoment.milliseconds ? Math.min(999, lastMoment.count + 1) : 0
  lastMoment = { milliseconds, count }
  return { second: Math.floor(milliseconds / 1000), microsecond: (milliseconds % 1000) * 1000 + count }
}

/** Whether a text such as `2026-11-20` is a day that there is: Date.parse takes 30 February for 2 March. */
export function isCalendarDay(day: string): boolean {
  const milliseconds = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(milliseconds) && new Date(milliseconds).toISOString().startsWith(day)
}

/**
 * Reads a day or a moment in UTC, such as `2026-11-20` or `2026-11-20T08:00:00Z`.
 * @param param where it was written, as the refusal names it
 * @param addedToDay seconds that are added to a whole day, which is its beginning otherwise
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

const millisecondsOfDay = 86_400_000
/** The day that was asked for last, which is nearly always the one that is asked for next. */
let known = { number: Number.NaN, name: '' }

/** The UTC day of a time in milliseconds, such as `2026-11-20`. */
export function dayOf(time: number): string {
  const number = Math.floor(time / millisecondsOfDay)
  if (number !== known.number) known = { number, name: new Date(time).toISOString().slice(0, 10) }
  return known.name
}
