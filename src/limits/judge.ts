import type { Allowance, Bucket } from './bucket.ts'
import { openAiTokenHeaders, type RequestHeaders } from './headers.ts'
import type { LimitName } from './limits.ts'
import { exceeded, tooMany } from './refusals.ts'
import { type Spending, untilNextMonth, untilTomorrow } from './spending.ts'
import type { Applied, Terms } from './terms.ts'

/** What is counted for one key or one account. */
export interface Tally {
  readonly requests: Bucket
  readonly tokens: Bucket
  /** Chat requests that are going on. */
  chats: number
  /** Tokens that those may still spend. */
  reserved: number
  /** What it has spent, where somebody needs to know. */
  readonly spending: Pick<Spending, 'today' | 'thisMonth'> | undefined
}

/**
 * Takes one request.
 * @param tell writes the headers of a refusal
 * @returns how many are left
 * @throws ApiError 429
 */
export function takeRequest(
  { limit, subject }: Applied<Pick<Tally, 'requests'>>,
  now: number,
  tell: RequestHeaders,
): Allowance {
  const wait = subject.requests.take(now, limit, 1)
  const allowance = subject.requests.left(now, limit)
  if (wait > 0) throw exceeded('requests_per_minute', limit, wait, tell(allowance))
  return allowance
}

/**
 * Takes a place for a chat request, and the tokens that it may spend.
 * @returns what is left of the tokens of this minute, where that is limited
 * @throws ApiError 429, and then nothing is taken
 */
export function takePlace(terms: Terms<Tally>, wanted: number, now: number): Allowance | undefined {
  const { key, account, countsAtOnce, tokens, atOnce, perDay, perMonth } = terms
  if (atOnce && atOnce.subject.chats >= atOnce.limit) throw exceeded('chat_at_once', atOnce.limit, 1000)
  if (perDay) refuseBeyond('tokens_per_day', perDay, perDay.subject.spending?.today(now), wanted, untilTomorrow(now))
  if (perMonth) {
    const spent = perMonth.subject.spending?.thisMonth(now)
    refuseBeyond('tokens_per_month', perMonth, spent, wanted, untilNextMonth(now))
  }
  if (tokens) {
    const { limit, subject } = tokens
    const wait = subject.tokens.take(now, limit, wanted)
    if (wait > 0) {
      const headers = openAiTokenHeaders(subject.tokens.left(now, limit))
      throw wanted > limit
        ? tooMany('tokens_per_minute', limit, wanted, wait, headers)
        : exceeded('tokens_per_minute', limit, wait, headers)
    }
  }
  for (const subject of countsAtOnce) subject.chats++
  for (const subject of [key, account]) subject.reserved += wanted
  return tokens?.subject.tokens.left(now, tokens.limit)
}

function refuseBeyond(name: LimitName, { limit, subject }: Applied<Tally>, spent = 0, wanted: number, wait: number) {
  if (spent + subject.reserved + wanted <= limit) return
  if (wanted > limit) throw tooMany(name, limit, wanted, wait)
  throw exceeded(name, limit, wait)
}
