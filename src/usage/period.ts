import { invalidField } from '../errors.ts'
import { readMoment } from '../time.ts'

/** A span of time in Unix seconds; `until` is not included. */
export interface Period {
  readonly from: number
  readonly until: number
}

const secondsPerDay = 86_400
/** The days of a period without `from`, the last day included. */
const defaultDays = 30

/**
 * Reads a period in UTC. A day in `from` means the beginning of the day, and a day in `to` means the end of the day. A moment in
 * `to` is not included. Without `to`, the period ends now.
 * @param now Unix seconds
 * @param first the beginning of a period without `from`; by default 29 days before the last day
 * @throws ApiError 400 that names the parameter
 */
export function readPeriod(
  written: { readonly from?: string | undefined; readonly to?: string | undefined },
  now: number,
  first?: number,
): Period {
  // The current second is included.
  const until = written.to === undefined ? now + 1 : readMoment('to', written.to, secondsPerDay)
  const lastDay = startOfDay(until - 1)
  const defaultFrom = first ?? lastDay - (defaultDays - 1) * secondsPerDay
  const from = written.from === undefined ? defaultFrom : readMoment('from', written.from)
  if (from < until) return { from, until }
  const param = written.from === undefined ? 'to' : 'from'
  throw invalidField(param, 'leaves no time: "from" must be before "to", and not in the future', 'The value of')
}

/** A period as whole UTC days, and the rests before and after them. */
export interface PeriodParts {
  readonly days: Period | undefined
  readonly rest: readonly Period[]
}

/**
 * Splits a period into whole days and rests. If the period reaches up to now, the current day counts as a whole day, because it
 * has no later requests.
 * @param now Unix seconds
 */
export function partsOf({ from, until }: Period, now: number): PeriodParts {
  const end = until > now ? startOfDay(until + secondsPerDay - 1) : until
  const days = { from: startOfDay(from + secondsPerDay - 1), until: startOfDay(end) }
  if (days.from >= days.until) return { days: undefined, rest: [{ from, until: end }] }
  const rest = [
    { from, until: days.from },
    { from: days.until, until: end },
  ]
  return { days, rest: rest.filter((period) => period.from < period.until) }
}

/** The start of the moment's day, in Unix seconds. */
function startOfDay(moment: number): number {
  return moment - (((moment % secondsPerDay) + secondsPerDay) % secondsPerDay)
}
