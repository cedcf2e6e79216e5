import { getJson } from './api.ts'

/** A chat request as the ledger has it: `GET /requests` lists such records, and `GET /requests/{id}` gives one. */
export interface LedgerRecord {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  /** The prefix of its key. */
  readonly key: string
  /** As it was asked for. */
  readonly model: string
  readonly model_used: string | null
  readonly character: string | null
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly tokens_exact: boolean
  readonly first_token_ms: number | null
  readonly total_ms: number
  readonly retries: number
  readonly state: string
  readonly upstream_truncated: string | null
}

/** The record of a request of the own account. @throws Failure 404 where the ledger has none */
export function recordOf(requestId: string, signal?: AbortSignal): Promise<LedgerRecord> {
  return getJson<LedgerRecord>(`requests/${encodeURIComponent(requestId)}`, signal ? { signal } : {})
}
