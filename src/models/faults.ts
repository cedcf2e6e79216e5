import type { ApiError } from '../errors.ts'

/* The failures of models: the one at fault, whether another try may help, and their names in metrics. */

/** Status and code of a failure, which tell all that is asked here. */
type Failure = Pick<ApiError, 'status' | 'code'>

/** Failures that say nothing bad about the model and would come again: the caller's own, and a client that left. */
export function isCallersFault({ status }: Failure): boolean {
  return status < 500 && status !== 429 && status !== 408
}

/** Failures that say nothing of the model, and that another model would not mend: the caller's, and that there is no room here. */
export function isUnrelatedToModel(error: Failure): boolean {
  return isCallersFault(error) || error.code === 'overloaded'
}

const modelLimitCodes = new Set(['context_length_exceeded', 'unsupported_input', 'unsupported_by_model'])

/**
 * Failures of which another model of a list may be free: an id that the model's service does not know, a context window that
 * is too small, a kind of input that it does not take.
 */
export function isLimitOfOneModel({ status, code }: Failure): boolean {
  return status === 404 || modelLimitCodes.has(code)
}

const transientCodes = new Set(['upstream_error', 'upstream_unreachable', 'rate_limit_exceeded', 'model_busy'])

/** Failures that another try may not have. */
export function isTransient({ code }: Failure): boolean {
  return transientCodes.has(code)
}

/**
 * The name of a failure where there must be few names, as in metrics and traces: its code. All refusals have one name,
 * since their codes are the upstream's own words, of which there may be any number.
 */
export function failureName(error: Failure): string {
  if (error.status === 499) return 'client_gone'
  return isCallersFault(error) ? 'refused' : error.code
}
