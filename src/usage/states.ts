import type { ApiError } from '../errors.ts'
import { valueIn } from '../fields.ts'
import { isCallersFault } from '../models/faults.ts'
import { finishReasons } from '../openai/finish-reasons.ts'

/** States of failures by error code; all other failures are `refused` or `upstream_error`. */
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
  return valueIn(states, error.code) ?? (isCallersFault(error) ? 'refused' : 'upstream_error')
}

/** All states of requests in the ledger. */
export const allStates: readonly string[] = [
  ...new Set(['running', ...finishReasons, 'refused', 'upstream_error', ...Object.values(states)]),
]

/** States that are no failure: answers, and clients that left before the answer was complete. */
const unfailed: ReadonlySet<string> = new Set([...finishReasons, 'client_gone'])

/** The states of `unfailed` as a list for SQL. */
export const unfailedStates = [...unfailed].map((state) => `'${state}'`).join(', ')

/** Whether a request that ended in this state got no complete answer because of an error. */
export function isFailure(state: string): boolean {
  return !unfailed.has(state)
}
