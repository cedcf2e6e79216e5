import { invalidField } from '../errors.ts'
import { readMoment } from '../time.ts'

/** A span of time in Unix seconds: the first moment, and the first after it. */
export interface Period {
  readonly from: number
  readonly until: number
}

const secondsOfDay = 86_400
/** Days that are shown when none are asked for, today among them. */
const standardDays = 30

/**
 * Reads from when to when, in UTC. A day stands for all of it: `from` for its beginning, `to` for its end; a moment as `to`
 * is itself not included. Without `to` it is up to now; without `from` it begins 29 days before the last day.
 * @param now Unix seconds
 * @throws ApiError 400 that names the parameter
 */
export function readPeriod(written: { readonly from?: string; readonly to?: string }, now: number): Period {
  // Now is included.
  const until = written.to === undefined ? now + 1 : readMoment('to', written.to, secondsOfDay)
  const lastDay = until - 1 - ((until - 1) % secondsOfDay)
  const from =
    written.from === undefined ? lastDay - (standardDays - 1) * secondsOfDay : readMoment('from', written.from)
  if (from < until) return { from, until }
  const param = written.from === undefined ? 'to' : 'from'
  throw invalidField(param, 'leaves no time: "from" must be before "to", and not in the future', 'The value of')
}
