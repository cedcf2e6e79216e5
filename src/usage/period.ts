import { invalidField } from '../errors.ts'
import { readMoment } from '../time.ts'

/** A span of time in Unix seconds: the first moment, and the first after it. */
export interface Period {
  readonly from: number
  readonly until: number
}

const secondsPerDay = 86_400
/** Days that are shown when none are asked for, today among them. */
const defaultDays = 30

/**
 * Reads from when to when, in UTC. A day stands for all of it: `from` for its beginning, `to` for its end; a moment as `to`
 * is itself not included. Without `to` it is up to now; without `from` it begins 29 days before the last day.
 * @param now Unix seconds
 * @throws ApiError 400 that names the parameter
 */
export function readPeriod(written: { readonly from?: string; readonly to?: string }, now: number): Period {
  // Now is included.
  const until = written.to === undefined ? now + 1 : readMoment('to', written.to, secondsPerDay)
  const lastDay = startOfDay(until - 1)
  const from =
    written.from === undefined ? lastDay - (defaultDays - 1) * secondsPerDay : readMoment('from', written.from)
  if (from < until) return { from, until }
  const param = written.from === undefined ? 'to' : 'from'
  throw invalidField(param, 'leaves no time: "from" must be before "to", and not in the future', 'The value of')
}

/** A period in its whole days of UTC, and what is left of it before and after them. */
export interface PeriodParts {
  readonly days: Period | undefined
  readonly rest: readonly Period[]
}

/**
 * Takes a period apart. Of a day that is not over the whole is taken where the period reaches up to now: what is to come is
 * not there.
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

/** The first moment of the day of a moment. */
function startOfDay(moment: number): number {
  return moment - (((moment % secondsPerDay) + secondsPerDay) % secondsPerDay)
}
