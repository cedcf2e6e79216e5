import type { Allowance, Headers, RequestHeaders } from '../access/guard.ts'
import { ApiError } from '../errors.ts'
import type { LimitName } from '../limit-values.ts'
import type { Bucket } from './bucket.ts'
import { openAiTokenHeaders } from './headers.ts'
import type { AppliedLimit, AppliedLimits, KeyLimits } from './key-limits.ts'
import { type Spending, untilNextMonth, untilTomorrow } from './spending.ts'

/** The counts of one key or one account. */
export interface Tally {
  readonly requests: Bucket
  readonly tokens: Bucket
  /** Chat requests in flight. */
  chats: number
  /** Tokens that the chat requests in flight may still spend. */
  reserved: number
  /** Spent tokens. If no limit needs them, they may be undefined or 0, because they need not be read. */
  readonly spending: Pick<Spending, 'today' | 'thisMonth'> | undefined
}

/** Tokens that a chat request may take. */
export interface RequestedTokens {
  /** Tokens of this minute. */
  readonly tokens: number
  /** Tokens of this day and this month. */
  readonly reserved: number
}

/**
 * Takes one request from all limits, or from none.
 * @param headersOf writes the headers of a refusal
 * @returns the allowance of the limit with the fewest requests left; undefined without a limit
 * @throws ApiError 429 for the limit with the longest wait
 */
export function takeRequest(
  limits: AppliedLimits<Pick<Tally, 'requests'>>,
  now: number,
  headersOf: RequestHeaders,
): Allowance | undefined {
  const longest = longestWait(limits, ({ limit, subject }) => subject.requests.wait(now, limit, 1))
  if (longest) {
    const { limit, subject } = longest.by
    throw refusal('requests_per_minute', limit, longest.wait, headersOf(subject.requests.left(now, limit)))
  }
  for (const { subject } of limits) subject.requests.correct(1)
  return lowestAllowance(limits, ({ limit, subject }) => subject.requests.left(now, limit))
}

/**
 * Counts a chat request as in flight, and takes the tokens that the request may spend. A refused request changes no count.
 * @returns the tokens that are left in this minute; undefined without a limit
 * @throws ApiError 429
 */
export function takePlace(limits: KeyLimits<Tally>, requested: RequestedTokens, now: number): Allowance | undefined {
  const { tokens: wantedNow, reserved } = requested
  const { subjects, tokens, inFlight, perDay, perMonth } = limits
  const full = inFlight.find(({ limit, subject }) => subject.chats >= limit)
  if (full) throw refusal('chat_at_once', full.limit, 1000)
  refuseBeyond('tokens_per_day', perDay, 'today', reserved, now)
  refuseBeyond('tokens_per_month', perMonth, 'thisMonth', reserved, now)
  const longest = longestWait(tokens, ({ limit, subject }) => subject.tokens.wait(now, limit, wantedNow))
  if (longest) {
    const { limit, subject } = longest.by
    const headers = openAiTokenHeaders(subject.tokens.left(now, limit))
    throw refusal('tokens_per_minute', limit, longest.wait, headers, wantedNow)
  }
  for (const { subject } of tokens) subject.tokens.correct(wantedNow)
  for (const subject of subjects) {
    subject.chats++
    subject.reserved += reserved
  }
  return lowestAllowance(tokens, ({ limit, subject }) => subject.tokens.left(now, limit))
}

/** The allowance of the limit with the lowest remainder; of two equal limits, the limit of the key. Undefined without a limit. */
export function lowestAllowance<Subject>(
  limits: AppliedLimits<Subject>,
  left: (applied: AppliedLimit<Subject>) => Allowance,
): Allowance | undefined {
  let found: Allowance | undefined
  for (const applied of limits) {
    const allowance = left(applied)
    if (!found || allowance.remaining < found.remaining) found = allowance
  }
  return found
}

/** The limit with the longest wait, so that a caller who waits is not refused by the next limit; undefined without a wait. */
function longestWait<Subject>(limits: AppliedLimits<Subject>, waitFor: (applied: AppliedLimit<Subject>) => number) {
  let found: { readonly by: AppliedLimit<Subject>; readonly wait: number } | undefined
  for (const by of limits) {
    const wait = waitFor(by)
    if (wait > (found?.wait ?? 0)) found = { by, wait }
  }
  return found
}

function refuseBeyond(
  name: LimitName,
  limits: AppliedLimits<Tally>,
  period: 'today' | 'thisMonth',
  requested: number,
  now: number,
): void {
  for (const { limit, subject } of limits) {
    const spent = subject.spending?.[period](now) ?? 0
    if (spent + subject.reserved + requested <= limit) continue
    const wait = period === 'today' ? untilTomorrow(now) : untilNextMonth(now)
    throw refusal(name, limit, wait, {}, requested)
  }
}

/**
 * The 429 for a request over a limit. It advises a wait, or a smaller request if the request alone exceeds the limit.
 * @param wait milliseconds until a retry may succeed
 * @param requested how many tokens the request may take; 0 for a limit that does not count tokens
 */
function refusal(name: LimitName, limit: number, wait: number, headers: Headers = {}, requested = 0): ApiError {
  const seconds = Math.max(1, Math.ceil(wait / 1000))
  const message =
    requested > limit
      ? `The request may take ${requested} tokens, and the limit ${name} is ${limit}. Send a shorter prompt, or a lower max_completion_tokens.`
      : `The request would exceed the limit ${name} of ${limit}. Try again in ${seconds} s.`
  return new ApiError(429, 'rate_limit_exceeded', message, { headers: { 'retry-after': String(seconds), ...headers } })
}
