/** The time now, Unix seconds. */
export function unixSeconds(): number {
  return Math.floor(Date.now() / 1000)
}

/** Whether a text such as `2026-11-20` is a day that there is: Date.parse takes 30 February for 2 March. */
export function isCalendarDay(day: string): boolean {
  const milliseconds = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(milliseconds) && new Date(milliseconds).toISOString().startsWith(day)
}
