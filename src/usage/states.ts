import type { ApiError } from '../errors.ts'
import { isCallersFault } from '../models/faults.ts'
import { finishReasons } from '../openai/finish-reasons.ts'

/** The failures whose state is neither that of a refusal nor that of a model's failure, by their codes. */
const states: Readonly<Record<string, string>> = {
  client_gone: 'client_gone',
  upstream_timeout: 'timeout',
  service_stopping: 'interrupted',
  key_revoked: 'key_revoked',
  key_expired: 'key_revoked',
  account_suspended: 'key_revoked',
  account_deleted: 'key_revoked',
  internal_error: 'internal_error',
}

/** The state of a request that failed with this error. */
export function stateOf(error: ApiError): string {
  return states[error.code] ?? (isCallersFault(error) ? 'refused' : 'upstream_error')
}

/** Every state that the ledger may have a request in. */
export const allStates: readonly string[] = [
  ...new Set(['running', ...finishReasons, 'refused', 'upstream_error', ...Object.values(states)]),
]

/** States that are no failure: answers, and callers who left before theirs was complete. */
const unfailed: ReadonlySet<string> = new Set([...finishReasons, 'client_gone'])

/** The same states as a list of SQL. */
export const unfailedStates = [...unfailed].map((state) => `'${state}'`).join(', ')

/** Tells whether a request in this state got no answer through a fault, its own or ours. */
export function isFailure(state: string): boolean {
  return !unfailed.has(state)
}
