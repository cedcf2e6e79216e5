/** A period. Its days have the form `2026-11-20`. An empty text means no day. */
export interface Period {
  readonly span: Span
  readonly from: string
  readonly to: string
}

export type Span = 'week' | 'month' | 'own'

const msPerDay = 86_400_000

/** The UTC day of a moment in milliseconds. */
function utcDay(milliseconds: number): string {
  return new Date(milliseconds).toISOString().slice(0, 10)
}

/** The day that is this number of days after another day. */
export function dayAfter(day: string, days: number): string {
  return utcDay(Date.parse(day) + days * msPerDay)
}

/** The last days in UTC, including today. */
export function lastDays(days: number, now = Date.now()): { readonly from: string; readonly to: string } {
  return { from: utcDay(now - (days - 1) * msPerDay), to: utcDay(now) }
}

/** The first and the last day of a period. An empty text if the period has no beginning or no end. */
export function daysOf({ span, from, to }: Period): { readonly from: string; readonly to: string } {
  if (span === 'own') return { from, to }
  return lastDays(span === 'week' ? 7 : 30)
}

/**
 * The beginning of a day in the reader's time zone, in Unix seconds. Undefined without a day.
 * @param later days that are added
 */
export function localMidnight(day: string, later = 0): number | undefined {
  const [year, month, date] = day.split('-').map(Number)
  if (year === undefined || month === undefined || date === undefined) return undefined
  const moment = new Date(0)
  moment.setFullYear(year, month - 1, date + later)
  moment.setHours(0, 0, 0, 0)
  return Number.isNaN(moment.getTime()) ? undefined : Math.floor(moment.getTime() / 1000)
}

const dayNames = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' })
const shortDayNames = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' })

/** A day in the reader's language. A text that is not a day stays unchanged. */
export function formatDay(day: string): string {
  const moment = Date.parse(day)
  return Number.isNaN(moment) ? day : dayNames.format(moment)
}

/** A day in the reader's language, without its year. */
export function formatShortDay(day: string): string {
  const moment = Date.parse(day)
  return Number.isNaN(moment) ? day : shortDayNames.format(moment)
}
