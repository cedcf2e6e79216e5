import { formatBytes, formatNumber } from '../ui/format.ts'

/** The titles of the limits, in the order in which they are shown. */
const titles: Readonly<Record<string, string>> = {
  requests_per_minute: 'Requests per minute',
  tokens_per_minute: 'Tokens per minute',
  chat_at_once: 'Chats at once',
  tokens_per_day: 'Tokens per day',
  tokens_per_month: 'Tokens per month',
  plants: 'Plants',
  characters: 'Characters',
  character_bytes: 'Room for characters',
}

/** The names of all limits. */
export const limitNames: readonly string[] = Object.keys(titles)

/** The title of a limit; its name where a newer service has an unknown one. */
export function titleOf(limit: string): string {
  return titles[limit] ?? limit
}

/** The value of a limit, or its used part. */
export function formatAmount(limit: string, value: number): string {
  return limit === 'character_bytes' ? formatBytes(value) : formatNumber(value)
}

/** A limit of `GET /limits`, with its used part. */
export interface Limit {
  readonly limit: string
  readonly of: 'account' | 'key'
  /** Null where there is no limit. */
  readonly value: number | null
  /** Null where there is no limit and too much to count. */
  readonly used: number | null
  /** Unix seconds; null for a limit that does not reset with time. */
  readonly resets: number | null
}
