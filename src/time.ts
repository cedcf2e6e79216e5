/** The time now, Unix seconds. */
export function unixSeconds(): number {
  return Math.floor(Date.now() / 1000)
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
