import type { Prunable } from '../storage/prune.ts'

/** The record of one chat request: counts and names, never texts. */
export interface LedgerEntry {
  /** The request's id, the same in the reply, the log and the ledger. */
  readonly id: string
  readonly account: number
  /** The id of the key's subject of counting, under which the tokens of its keys are summed. */
  readonly keyId: string
  /** The subject of the key's maker, for which the tokens count too; null or undefined without a maker. */
  readonly maker?: string | null
  readonly keyPrefix: string
  /** The model's name in the request. */
  readonly model: string
  /** The model that answered, by its name in this service; null if no model answered. */
  readonly modelUsed: string | null
  /** Such as `Fern@sha256:…`; the name alone for a character without a card, null without a character. */
  readonly character: string | null
  /** Unix seconds. */
  readonly created: number
  /** The microsecond within the second `created`, to order the requests of one second; 0 by default. */
  readonly microsecond?: number
  /** Tokens that were reserved for the request; 0 if no limit of tokens applies. */
  readonly reservedTokens: number
  readonly promptTokens: number
  readonly completionTokens: number
  /** Whether the model reported the tokens; otherwise they are estimated. */
  readonly tokensExact: boolean
  /** Milliseconds until a stream's first event; null for a whole reply, and if no event came. */
  readonly firstTokenMs: number | null
  readonly totalMs: number
  readonly retries: number
  /** A finish reason, or one of the states of a failure; `running` until the request ends. */
  readonly state: string
  /** If the upstream has cut the prompt, the prompt's tokens by its count and by our count, such as `2048/8190`; else null. */
  readonly upstreamTruncated?: string | null
}

/** The record of chat requests, and of the tokens that each subject (`key:ID`, `account:ID`) spent on each UTC day. */
export interface Ledger extends Prunable {
  /**
   * Records a request before a model is called; resolves when the record survives a crash of the process.
   * @throws when the record, or an end of an earlier request, cannot be written; then the request is not recorded. After
   *   the error `write_unconfirmed`, PostgreSQL may have recorded the request
   */
  begin(entry: LedgerEntry): Promise<void>
  /**
   * Records the end of a request and its spent tokens; resolves when the record survives a crash of the process.
   * @throws when the record cannot be written now; the record then stays in memory, and is written as soon as possible.
   *   Until then, the limits count the request's spent tokens, or over PostgreSQL its reserved tokens
   */
  finish(entry: LedgerEntry): Promise<void>
  /** Buffers the record of an ended request, and writes it within moments. A crash may lose the latest records. */
  record(entry: LedgerEntry): void
  /**
   * Tokens that a subject spent between two days, both included, such as `2026-11-20`. The number includes all requests that were
   * recorded before this call; over SQLite it includes no request that is recorded after the call.
   */
  spent(subject: string, fromDay: string, toDay: string): Promise<number>
  /** Ends the requests that a crashed service left running. Their reserved tokens count as spent. @returns how many requests */
  interruptRunning(): Promise<number>
  /**
   * Adds at most `maxRequests` ended requests to the sums of their days, in one short transaction.
   * @returns how many requests were added: 0 when no request is left, or when another replica adds the rest
   */
  addToDaySums(maxRequests: number): Promise<number>
  /** Writes the records that are in memory. */
  flush(): Promise<void>
}
