import type { Key } from '../access/access.ts'
import type { Allowance, RequestCounter } from '../access/guard.ts'
import type { Tally } from './counting.ts'
import type { ChatPurpose } from './key-limits.ts'

/** Refuses requests of keys and accounts that are over their limits. */
export interface Limiter extends RequestCounter {
  /** Chat requests of all keys that are in flight in this process. */
  readonly inFlightChats: number
  /**
   * Admits a chat request: counts it as in flight, and reserves tokens for it. Without a promise if nothing must be read.
   * @param estimate how many tokens the request may spend; called only if tokens are limited
   * @param purpose by default `answer`; for `prompt`, the tokens count only in the minute, and not in the day or the month
   * @throws ApiError 429; 503 when PostgreSQL cannot be read; SQLite's error when SQLite cannot be read
   */
  reserve(key: Key, estimate: () => number, purpose?: ChatPurpose): Reservation | Promise<Reservation>
  /**
   * Reads the counts of a key, of its maker and of its account, spent tokens included.
   * @param read reads the counts and must not change them. It may be called several times: the result of the last call is
   *   returned. `now` is in milliseconds
   * @throws ApiError 503 when PostgreSQL cannot be read; SQLite's error when SQLite cannot be read
   */
  readTallies<T>(key: Key, read: (tallies: Tallies, now: number) => T): Promise<T>
}

/** The counts of a key, of its maker with all keys that the maker has made, and of its account over all keys. */
export interface Tallies {
  readonly key: Tally
  readonly maker: Tally | undefined
  readonly account: Tally
}

/** The tokens and the in-flight chat that are counted for a chat request until it ends. */
export interface Reservation {
  /** Tokens that the request may spend; 0 if tokens are not limited. */
  readonly tokens: number
  /** Whether a limit for a day or a month is in force: then the spent tokens must be recorded. */
  readonly hasSpendingLimit: boolean
  /** Tokens that are left in this minute; undefined if the tokens of a minute are not limited. */
  readonly allowance: Allowance | undefined
  /**
   * Ends the reservation: the spent tokens replace the reserved tokens. To be called however the request ends; only the first
   * call counts.
   * @param recorded resolves when the ledger has recorded the spent tokens, and rejects if the ledger will record them later;
   *   needed if `hasSpendingLimit`
   * @returns if replicas share the counts, a promise that resolves when the counts are written or the write has failed
   */
  settle(spent: number, recorded?: Promise<void>): Promise<void> | undefined
}
