import { formatBytes, formatNumber } from '../ui/format.ts'

/** What can be limited, in the order in which it is shown, as people call it. */
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

/** What people call a limit; its own name where the service has one that is newer than this. */
export function titleOf(limit: string): string {
  return titles[limit] ?? limit
}

/** A value of a limit, or what is used of it. */
export function formatAmount(limit: string, value: number): string {
  return limit === 'character_bytes' ? formatBytes(value) : formatNumber(value)
}

/** How far a limit is used, as `GET /limits` tells it. */
export interface Limit {
  readonly limit: string
  readonly of: 'account' | 'key'
  /** Null where there is no limit. */
  readonly value: number | null
  /** Null where there is no limit, and too much to be counted. */
  readonly used: number | null
  /** Unix seconds; null where time brings nothing back. */
  readonly resets: number | null
}
