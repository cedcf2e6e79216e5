import type { Headers } from '../access/guard.ts'
import { ApiError } from '../errors.ts'
import type { LimitName } from '../limit-values.ts'

/** The 429 for a request that would exceed a limit. @param wait milliseconds until a retry may succeed */
export function exceeded(name: LimitName, limit: number, wait: number, headers: Headers = {}): ApiError {
  const seconds = wholeSeconds(wait)
  const message = `The request would exceed the limit ${name} of ${limit}. Try again in ${seconds} s.`
  return refusal(message, seconds, headers)
}

/** The 429 for a request that alone exceeds a limit. @param wait milliseconds until the full limit is available */
export function tooMany(
  name: LimitName,
  limit: number,
  requested: number,
  wait: number,
  headers: Headers = {},
): ApiError {
  const message = `The request may take ${requested} tokens, and the limit ${name} is ${limit}. Send a shorter prompt, or a lower max_completion_tokens.`
  return refusal(message, wholeSeconds(wait), headers)
}

function refusal(message: string, seconds: number, headers: Headers): ApiError {
  return new ApiError(429, 'rate_limit_exceeded', message, { headers: { 'retry-after': String(seconds), ...headers } })
}

function wholeSeconds(milliseconds: number): number {
  return Math.max(1, Math.ceil(milliseconds / 1000))
}
