import type { LedgerEntry } from './ledger.ts'

/** What the ledger tells of one chat request. */
export type LedgerRequest = Omit<LedgerEntry, 'account' | 'keyId' | 'reservedTokens'>

/** What an account can have its usage summed up by. */
export const groupings = ['day', 'model', 'key', 'character'] as const
/** The operator sees every account, and so by account too. */
export const operatorGroupings = [...groupings, 'account'] as const
export type Grouping = (typeof operatorGroupings)[number]

/** Which requests of an account are listed. */
export interface RequestFilter {
  /** The account's id. */
  readonly account: number
  /** The first moment, Unix seconds. */
  readonly from: number
  /** The first moment after the last, Unix seconds. */
  readonly until: number
  /** As it was asked for. */
  readonly model?: string
  readonly state?: string
  /** Only requests that are older than this one. */
  readonly after?: LedgerRequest
}

/** Which requests are summed up, and by what. */
export interface UsageFilter {
  readonly by: Grouping
  /** The account's id; every account without it. */
  readonly account?: number
  /** The first moment, Unix seconds. */
  readonly from: number
  /** The first moment after the last, Unix seconds. */
  readonly until: number
}

/** What requests of one day, model, key, character or account used together. */
export interface UsageLine {
  /** Which day (`2026-11-20`, UTC), model … it is; null for requests that have none. */
  readonly group: string | null
  readonly requests: number
  readonly promptTokens: number
  readonly completionTokens: number
  readonly failed: number
}

/** Reads the ledger. What this process has not written yet is not seen: flush the ledger first. */
export interface UsageReader {
  /** The request with this id, if it is this account's. */
  find(account: number, id: string): Promise<LedgerRequest | undefined>
  /** At most so many requests, newest first. */
  list(filter: RequestFilter, limit: number): Promise<readonly LedgerRequest[]>
  /**
   * Sums up all that has ended: days in order, anything else by its tokens, the most first.
   * @param most how many lines are told at most; all of them without it
   */
  sum(filter: UsageFilter, maxLines?: number): Promise<readonly UsageLine[]>
}

/** A line as JSON and CSV have it: the first field is named by what was asked for. */
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

/** The names of a row's fields, also where there is no row. */
export function usageHeader(by: Grouping): readonly string[] {
  return [by, 'requests', 'prompt_tokens', 'completion_tokens', 'failed']
}
