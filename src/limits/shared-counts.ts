import type { Tally } from './counting.ts'

/** What is counted of a subject: `key:ID` or `account:ID`. */
export type TallyOf = (subject: string) => Tally

/** What is given back of a subject when a chat request ends. */
export interface Released {
  readonly subject: string
  readonly chats: number
  readonly reserved: number
  /** How many tokens more were spent than had been taken of this minute's; negative where there were fewer. */
  readonly tokens: number
}

/** What several replicas count together. */
export interface SharedCounts {
  /**
   * Judges by what all replicas have counted, and keeps what the judge takes. The places and the reserved tokens among
   * that are held by this replica: should it die, they come back after a while.
   * @param judge takes, and gives an answer; may be called several times, of which the last counts. `now` is milliseconds.
   * @param readsSpending whether the judge asks what was spent
   * @throws ApiError what the judge throws, and then nothing is taken; 503 when the counts cannot be read or written
   */
  take<T>(subjects: readonly string[], judge: (tallyOf: TallyOf, now: number) => T, readsSpending?: boolean): Promise<T>
  /**
   * Gives back what this replica holds. Resolves when others know of it, or when that did not work; then it is tried
   * again until it does.
   */
  release(all: readonly Released[]): Promise<void>
}
