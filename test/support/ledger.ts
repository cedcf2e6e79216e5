import { join } from 'node:path'
import Database from 'better-sqlite3'

/** A row of the ledger, as a test wants it: what it leaves out is the same for all. */
export interface LedgerRow {
  readonly id?: string
  /** The account's id; the first account's without it. */
  readonly account?: number
  readonly key?: string
  readonly model?: string
  readonly character?: string | null
  /** Such as `2026-11-20T08:00:00Z`. */
  readonly created: string
  readonly promptTokens?: number
  readonly completionTokens?: number
  readonly state?: string
}

let count = 0

/** Puts rows into the ledger of a data folder, beside a service that may be running over it. */
export function putIntoLedger(dataDirectory: string, rows: readonly LedgerRow[]): void {
  const database = new Database(join(dataDirectory, 'conservatory.db'))
  const insert = database.prepare(`
    INSERT INTO requests (id, account, key_id, key_prefix, model, model_used, character, created, reserved_tokens,
      prompt_tokens, completion_tokens, tokens_exact, first_token_ms, total_ms, retries, state)
    VALUES (?, ?, 'key_1', ?, ?, 'gpt', ?, ?, 500, ?, ?, 1, 41, 380, 2, ?)`)
  const insertAll = database.transaction(() => {
    for (const row of rows) {
      insert.run(
        row.id ?? `req_${String(++count).padStart(32, '0')}`,
        row.account ?? 1,
        row.key ?? 'cv_ab12',
        row.model ?? 'best',
        row.character ?? null,
        Date.parse(row.created) / 1000,
        row.promptTokens ?? 0,
        row.completionTokens ?? 0,
        row.state ?? 'stop',
      )
    }
  })
  insertAll.immediate()
  database.close()
}
