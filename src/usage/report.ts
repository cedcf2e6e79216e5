import type { LedgerEntry } from './ledger.ts'

/** A chat request as the ledger shows it. */
export type LedgerRequest = Omit<LedgerEntry, 'account' | 'keyId' | 'maker' | 'reservedTokens'>

/** The groupings of an account's usage. */
export const groupings = ['day', 'model', 'key', 'character'] as const
/** The operator sees all accounts, and so may group by account. */
export const operatorGroupings = [...groupings, 'account'] as const
export type Grouping = (typeof operatorGroupings)[number]

/** Selects the requests of an account to list. */
export interface RequestFilter {
  /** The account's id. */
  readonly account: number
  /** Unix seconds, included. */
  readonly from: number
  /** Unix seconds, not included. */
  readonly until: number
  /** The model's name in the request. */
  readonly model?: string
  readonly state?: string
  /** If set, only requests older than this request. */
  readonly after?: LedgerRequest
}

/** Selects the requests to sum, and the grouping. */
export interface UsageFilter {
  readonly by: Grouping
  /** The account's id; by default all accounts. */
  readonly account?: number
  /** Unix seconds, included. */
  readonly from: number
  /** Unix seconds, not included. */
  readonly until: number
}

/** The usage of one day, model, key, character or account. */
export interface UsageLine {
  /** The day (`2026-11-20`, UTC), model and so on; null for requests without a character, or of a deleted account. */
  readonly group: string | null
  readonly requests: number
  readonly promptTokens: number
  readonly completionTokens: number
  readonly failed: number
}

/** Reads the ledger. It does not see records that this process has in memory: flush the ledger first. */
export interface UsageReader {
  /** The account's request with this id. */
  find(account: number, id: string): Promise<LedgerRequest | undefined>
  /** At most `limit` requests, newest first. */
  list(filter: RequestFilter, limit: number): Promise<readonly LedgerRequest[]>
  /**
   * Sums ended requests. Days are sorted by date, other groupings by tokens, the highest number first.
   * @param maxLines the maximum number of lines; by default all lines
   */
  sum(filter: UsageFilter, maxLines?: number): Promise<readonly UsageLine[]>
}

/** A line of JSON or CSV; its first field has the name of the grouping. */
export type UsageRow = Readonly<Record<string, string | number | null>>

/** Writes a line as a row. */
export function usageRow(by: Grouping, line: UsageLine): UsageRow {
  return {
    [by]: line.group,
    requests: line.requests,
    prompt_tokens: line.promptTokens,
    completion_tokens: line.completionTokens,
    failed: line.failed,
  }
}

/** The names of a row's fields, even if there is no row. */
export function usageHeader(by: Grouping): readonly string[] {
  return [by, 'requests', 'prompt_tokens', 'completion_tokens', 'failed']
}
