/** The time now, Unix seconds. */
export function unixSeconds(): number {
  return Math.floor(Date.now() / 1000)
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

const millisecondsOfDay = 86_400_000
/** The day that was asked for last, which is nearly always the one that is asked for next. */
let known = { number: Number.NaN, name: '' }

/** The UTC day of a time in milliseconds, such as `2026-11-20`. */
export function dayOf(time: number): string {
  const number = Math.floor(time / millisecondsOfDay)
  if (number !== known.number) known = { number, name: new Date(time).toISOString().slice(0, 10) }
  return known.name
}
