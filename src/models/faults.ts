import type { ApiError } from '../errors.ts'
import { isModelParameter } from '../openai/model-parameters.ts'

/** The failures of models: who has caused a failure, whether a retry may help, and the name of the failure in metrics. */

/** The fields of an `ApiError` that classify it. */
type Failure = Pick<ApiError, 'status' | 'code'> & Partial<Pick<ApiError, 'param'>>

/** Whether the caller has caused the failure, or has left. Then the model works, and a retry would fail again. */
export function isCallersFault({ status }: Failure): boolean {
  return status < 500 && status !== 429 && status !== 408
}

/**
 * Whether the failure has nothing to do with the model: the caller has caused it, or this service is overloaded. Then another
 * model would not help.
 */
export function isUnrelatedToModel(error: Failure): boolean {
  return isCallersFault(error) || error.code === 'overloaded'
}

/**
 * Whether a failure counts for the circuit breaker. A refused request, an overloaded service or a rate limit does not show that
 * the model is broken.
 */
export function showsBrokenModel(error: Failure): boolean {
  return !isUnrelatedToModel(error) && error.status !== 429
}

const modelLimitCodes = new Set([
  'context_length_exceeded',
  'unsupported_input',
  'unsupported_by_model',
  'refused_parameter',
  'private_url',
])

/**
 * Whether the failure is a limit of this model that another model may not have: an unknown model id, a context window that is too
 * small, an unsupported kind of input or feature, a parameter or URL that the operator allows only for other models, or a value of a
 * parameter that only the model reads.
 */
export function isLimitOfOneModel({ status, code, param }: Failure): boolean {
  return status === 404 || modelLimitCodes.has(code) || (valueCodes.has(code) && isReadByModelOnly(param ?? ''))
}

/** The codes of a wrong or missing value. */
const valueCodes = new Set(['invalid_field', 'missing_field'])

/** Whether a field is a parameter that only models read, or the type of a tool call. */
function isReadByModelOnly(param: string): boolean {
  const [name = ''] = /^\w*/.exec(param) ?? []
  return isModelParameter(name) || /^messages\[\d+\]\.tool_calls\[\d+\]\.type$/.test(param)
}

const transientCodes = new Set(['upstream_error', 'upstream_unreachable', 'rate_limit_exceeded', 'model_busy'])

/** Whether the same model may be asked again after the failure. A timeout is not retried. */
export function isTransient({ code }: Failure): boolean {
  return transientCodes.has(code)
}

/**
 * The name of a failure in metrics and traces: the code of the error. Metrics need few names, and upstreams may send any code for
 * a refusal. So all refusals share one name.
 */
export function failureName(error: Failure): string {
  if (error.status === 499) return 'client_gone'
  return isCallersFault(error) ? 'refused' : error.code
}
