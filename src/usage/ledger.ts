import type { Prunable } from '../storage/prune.ts'

/** What is kept of one chat request: counts and names, never a text. */
export interface LedgerEntry {
  /** The request's id, as its reply, the log and the ledger have it. */
  readonly id: string
  readonly account: number
  readonly keyId: string
  readonly keyPrefix: string
  /** As it was asked for. */
  readonly model: string
  /** The model that answered, by its name in `models.json`. */
  readonly modelUsed: string | null
  /** Such as `Fern@sha256:…`; a name alone where there is no card. */
  readonly character: string | null
  /** Unix seconds. */
  readonly created: number
  /** Microseconds of that second, which put requests in order; 0 without it. */
  readonly microsecond?: number
  /** Tokens that it might have spent; 0 where nothing limited them. */
  readonly reservedTokens: number
  readonly promptTokens: number
  readonly completionTokens: number
  /** Whether the model itself told how many tokens there were. */
  readonly tokensExact: boolean
  /** Milliseconds until a stream's first event. */
  readonly firstTokenMs: number | null
  readonly totalMs: number
  readonly retries: number
  /** How it ended: a finish reason, or one of the states of a failure; `running` until then. */
  readonly state: string
  /** What of the prompt the upstream has read, `<theirs>/<ours>` in tokens, where that was under half; null otherwise, and without it. */
  readonly upstreamTruncated?: string | null
}

/** The record of chat requests, and what was spent in them by each key and account (`key:ID`, `account:ID`) and UTC day. */
export interface Ledger extends Prunable {
  /**
   * Puts down a request before a model is asked; resolves when that outlives the process.
   * @throws when it cannot be written, or an earlier end cannot; then the request is not put down, now or later
   */
  begin(entry: LedgerEntry): Promise<void>
  /**
   * Puts down how a request that was begun has ended, and what it spent; resolves when that outlives the process.
   * @throws when it cannot be written now; it is kept in memory, counted as spent, and written as soon as it can be
   */
  finish(entry: LedgerEntry): Promise<void>
  /** Puts down a request that has ended, soon: what was recorded in the last moments may be lost with the process. */
  record(entry: LedgerEntry): void
  /**
   * Tokens that a subject spent on the days from one to another, both included, such as `2026-11-20`: all that the ledger
   * was told before, and nothing that it is told after.
   */
  spent(subject: string, fromDay: string, toDay: string): Promise<number>
  /** Ends the requests that a service left running when it died: what they had reserved counts as spent. Gives how many. */
  interruptRunning(): Promise<number>
  /**
   * Adds requests that have ended to the sums of their days, at most so many, in one short transaction.
   * @returns how many those were: 0 when none is left
   */
  addToDaySums(maxRequests: number): Promise<number>
  /** Writes what was recorded. */
  flush(): Promise<void>
}
