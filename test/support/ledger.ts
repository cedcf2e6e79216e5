import type { TestSql } from './test-sql.ts'

/** A row of the ledger; missing fields get defaults. */
export interface LedgerRow {
  readonly id?: string
  /** The id of the account; by default the first account. */
  readonly account?: number
  readonly key?: string
  readonly model?: string
  readonly character?: string | null
  /** The time of the request, such as `2026-11-20T08:00:00Z`. */
  readonly created: string
  readonly promptTokens?: number
  readonly completionTokens?: number
  readonly state?: string
}

let count = 0

/** Adds rows to the ledger. A service may be running over the same database. */
export function putIntoLedger(sql: TestSql, rows: readonly LedgerRow[]): Promise<void> {
  const entries = rows.map((row) => ({
    id: row.id ?? `req_${String(++count).padStart(32, '0')}`,
    account: row.account ?? 1,
    key_id: 'key_1',
    key_prefix: row.key ?? 'cv_ab12',
    model: row.model ?? 'best',
    model_used: 'gpt',
    character: row.character ?? null,
    created: Date.parse(row.created) / 1000,
    reserved_tokens: 500,
    prompt_tokens: row.promptTokens ?? 0,
    completion_tokens: row.completionTokens ?? 0,
    tokens_exact: 1,
    first_token_ms: 41,
    total_ms: 380,
    retries: 2,
    state: row.state ?? 'stop',
  }))
  return sql.insert('requests', entries)
}
