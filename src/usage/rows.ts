import { rowsOf, type Script, sql } from '../storage/scripts.ts'
import { dayOf } from '../time.ts'
import type { EndedRequest } from './day-sums.ts'
import type { LedgerEntry } from './ledger.ts'
import type { Grouping, LedgerRequest } from './report.ts'

/** A request's row in the database, as reports read it. */
export interface RequestRow {
  readonly id: string
  readonly key_prefix: string
  readonly model: string
  readonly model_used: string | null
  readonly character: string | null
  readonly created: number
  readonly microsecond: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly tokens_exact: number
  readonly first_token_ms: number | null
  readonly total_ms: number
  readonly retries: number
  readonly state: string
  readonly upstream_truncated: string | null
}

/** The columns of a `RequestRow`: a prepared statement with `*` fails in PostgreSQL after a newer release has added a column. */
export const requestColumns = `id, key_prefix, model, model_used, character, created, microsecond, prompt_tokens, completion_tokens,
  tokens_exact, first_token_ms, total_ms, retries, state, upstream_truncated`

/** The request of a row. */
export function toRequest(row: RequestRow): LedgerRequest {
  return {
    id: row.id,
    created: row.created,
    microsecond: row.microsecond,
    keyPrefix: row.key_prefix,
    model: row.model,
    modelUsed: row.model_used,
    character: row.character,
    promptTokens: row.prompt_tokens,
    completionTokens: row.completion_tokens,
    tokensExact: row.tokens_exact === 1,
    firstTokenMs: row.first_token_ms,
    totalMs: row.total_ms,
    retries: row.retries,
    state: row.state,
    upstreamTruncated: row.upstream_truncated,
  }
}

/** A request's row in the database, as the ledger writes it. */
export interface WrittenRow extends RequestRow, EndedRequest {
  readonly id: string
  readonly account: number
  readonly key_id: string
  readonly reserved_tokens: number
  readonly maker: string | null
}

/** The row of an entry. @param toStored a name as the engine can store it */
export function rowOfEntry(entry: LedgerEntry, toStored = (name: string) => name): WrittenRow {
  const { modelUsed, character } = entry
  return {
    id: entry.id,
    account: entry.account,
    key_id: entry.keyId,
    key_prefix: entry.keyPrefix,
    model: toStored(entry.model),
    model_used: modelUsed === null ? null : toStored(modelUsed),
    character: character === null ? null : toStored(character),
    created: entry.created,
    microsecond: entry.microsecond ?? 0,
    reserved_tokens: entry.reservedTokens,
    prompt_tokens: entry.promptTokens,
    completion_tokens: entry.completionTokens,
    tokens_exact: entry.tokensExact ? 1 : 0,
    first_token_ms: entry.firstTokenMs,
    total_ms: entry.totalMs,
    retries: entry.retries,
    state: entry.state,
    upstream_truncated: entry.upstreamTruncated ?? null,
    maker: entry.maker ?? null,
  }
}

/** SQL for the name of a row's line in a report. @param day the SQL of the row's day */
export function lineOf(by: Grouping, table: string, day: string): string {
  if (by === 'account') return `(SELECT name FROM accounts WHERE accounts.id = ${table}.account)`
  return { day, model: 'model', key: 'key_prefix', character: 'character' }[by]
}

/** Removes requests from before a moment, or the sums of days before it if no request is left. @returns how many rows, at most `max` */
export function* removeOldRows(before: number, max: number): Script<number> {
  const requests = yield* rowsOf(sql`
    DELETE FROM requests WHERE id IN
      (SELECT id FROM requests WHERE created < ${before} AND state <> 'running' ORDER BY created LIMIT ${max})
    RETURNING id`)
  if (requests.length > 0) return requests.length
  // The sums of a day are removed when the whole day is too old.
  const days = yield* rowsOf(sql`
    DELETE FROM usage_days WHERE (account, day, digest) IN
      (SELECT account, day, digest FROM usage_days WHERE day < ${dayOf(before * 1000)} LIMIT ${max})
    RETURNING day`)
  return days.length
}
