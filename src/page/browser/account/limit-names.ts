import { ownValue } from '../base/own-value.ts'
import { formatBytes, formatNumber } from '../ui/format.ts'

/** The titles of the limits, in the order in which they are shown. */
const titles: Readonly<Record<string, string>> = {
  requests_per_minute: 'Requests per minute',
  tokens_per_minute: 'Tokens per minute',
  chat_at_once: 'Chats at once',
  tokens_per_day: 'Tokens per day',
  tokens_per_month: 'Tokens per month',
  plants: 'Plants',
  photo_bytes: 'Room for photos',
  characters: 'Characters',
  character_bytes: 'Room for characters',
  keys: 'Keys',
  changes_per_day: 'Changes per day',
  events: 'Events of plants',
}

/** The names of all limits. */
export const limitNames: readonly string[] = Object.keys(titles)

/**
 * The title of a limit. A newer service may send a limit that this page does not know. Then the title is the name of the limit.
 */
export function titleOf(limit: string): string {
  return ownValue(titles, limit) ?? limit
}

/** Whether the values of a limit are bytes. */
export function isInBytes(limit: string): boolean {
  return limit.endsWith('_bytes')
}

/** Formats the value of a limit, or the used part of the limit. */
export function formatAmount(limit: string, value: number): string {
  return isInBytes(limit) ? formatBytes(value) : formatNumber(value)
}

/** A limit of `GET /limits`, with its used part. */
export interface Limit {
  readonly limit: string
  readonly of: 'account' | 'maker' | 'key'
  /** Null if there is no limit. */
  readonly value: number | null
  /** Null for more than 10,000 plants without a limit, because the service does not count so many. */
  readonly used: number | null
  /** Unix seconds. Null for a limit that does not reset with time. */
  readonly resets: number | null
}
