import type { Key } from '../access/access.ts'
import type { Allowance, RequestCounter } from '../access/request-counter.ts'
import type { Tally } from './counting.ts'

/** What a chat request is about: a model's answer, or the prompt alone, for which no model is asked. */
export type ChatPurpose = 'answer' | 'prompt'

/** Holds keys and accounts to their limits. */
export interface Limiter extends RequestCounter {
  /** How many chat requests are going on here, of all keys. */
  readonly inFlightChats: number
  /**
   * Lets a chat request begin, and holds a place and tokens for it.
   * @param estimate how many tokens it may spend; asked only where they are limited
   * @param purpose a prompt counts in this minute alone, in no day and no month
   * @throws ApiError 429, and 503 when what was counted or spent cannot be read
   */
  reserve(key: Key, estimate: () => number, purpose?: ChatPurpose): Promise<Reservation>
  /**
   * Lets what is counted of a key and of its account be read; what has been spent is there.
   * @param read takes nothing; may be called several times, of which the last counts. `now` is milliseconds
   * @throws ApiError 503 when what was counted or spent cannot be read
   */
  readTallies<T>(key: Key, read: (tallies: Tallies, now: number) => T): Promise<T>
}

/** What is counted of a key, and of its account over all keys. */
export interface Tallies {
  readonly key: Tally
  readonly account: Tally
}

/** What a chat request holds while it goes on. */
export interface Reservation {
  /** Tokens that it may spend; 0 where nothing limits them. */
  readonly tokens: number
  /** Whether its spending must be on record: a limit for a day or a month is in force. */
  readonly hasSpendingLimit: boolean
  /** What is left of the tokens of this minute, where that is limited. */
  readonly allowance: Allowance | undefined
  /**
   * Gives the rest back, once; to be called however the request ends.
   * @param recorded resolves when what was spent is on record, where it must be; rejects where that is still to come
   * @returns a promise where others count as well: that they know of it. It never rejects.
   */
  settle(spent: number, recorded?: Promise<void>): Promise<void> | undefined
}
