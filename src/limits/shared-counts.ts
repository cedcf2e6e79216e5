import type { Tally } from './counting.ts'

/** Finds the counts of a subject: `key:ID` or `account:ID`. */
export type TallyOf = (subject: string) => Tally

/** The counts of a subject that a chat request releases when it ends. */
export interface Released {
  readonly subject: string
  readonly chats: number
  readonly reserved: number
  /** Spent tokens minus the tokens taken from this minute; negative if the request spent less than it took. */
  readonly tokens: number
}

/** Counts that several replicas share. */
export interface SharedCounts {
  /**
   * Calls `decide` with the counts of all replicas, and writes the counts that `decide` changed. In-flight chats and reserved
   * tokens are counted only while this replica renews its lease: they stop counting soon after the replica has died.
   * @param decide changes the tallies and returns an answer. It may be called several times: only the last call counts. `now`
   *   is in milliseconds
   * @param readsSpending whether `decide` reads spent tokens
   * @throws ApiError the error that `decide` throws, and then no count changes; 503 when the counts cannot be read or written
   */
  take<T>(
    subjects: readonly string[],
    decide: (tallyOf: TallyOf, now: number) => T,
    readsSpending?: boolean,
  ): Promise<T>
  /**
   * Releases in-flight chats and reserved tokens of this replica. Resolves when the write has succeeded or failed; renewals
   * repeat a failed write until it succeeds.
   */
  release(all: readonly Released[]): Promise<void>
}
