import { getJson } from './api.ts'

/** A chat request in the ledger, as `GET /requests` lists it and `GET /requests/{id}` returns it. */
export interface LedgerRecord {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  /** The prefix of the key. */
  readonly key: string
  /** The model's id in the request. */
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

/** The ledger's record of a request of this account. @throws Failure 404 if the ledger does not have it */
export function recordOf(requestId: string, signal?: AbortSignal): Promise<LedgerRecord> {
  return getJson<LedgerRecord>(`requests/${encodeURIComponent(requestId)}`, signal ? { signal } : {})
}
