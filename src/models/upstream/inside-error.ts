import type { ApiError } from '../../errors.ts'
import { type Fields, field, isFields, valueIn } from '../../fields.ts'
import { refusalFrom } from './errors.ts'

/** HTTP statuses by the error types and codes of upstreams, for errors that do not contain a status. */
const statuses: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  BadRequestError: 400,
  authentication_error: 401,
  invalid_api_key: 401,
  AuthenticationError: 401,
  insufficient_quota: 402,
  permission_error: 403,
  PermissionDeniedError: 403,
  not_found_error: 404,
  model_not_found: 404,
  NotFoundError: 404,
  UnprocessableEntityError: 422,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  RateLimitError: 429,
}

/**
 * The error that an upstream reports in the body of a 200; undefined if there is no error. `refusalFrom` translates the error
 * with the status that the error names. An upstream sends the error in place of the answer (LM Studio, OpenRouter, vLLM), in a
 * choice, or as the finish reason of a choice. FastAPI sends `detail`.
 * @param secrets texts that must not be repeated even if the upstream quotes them
 */
export function errorInside(value: unknown, secrets: readonly string[]): ApiError | undefined {
  // Google sends a list with the error.
  const answer: unknown = Array.isArray(value) ? value[0] : value
  const error = isFields(answer) ? reportedIn(answer) : undefined
  if (error === undefined) return undefined
  return refusalFrom({ status: statusOf(error), body: { error }, isInside: true }, secrets)
}

function reportedIn(value: Fields): unknown {
  if (value['error']) return value['error']
  if (value['object'] === 'error' || value['type'] === 'error') return value
  const choices = value['choices']
  if (!Array.isArray(choices)) return value['detail'] ? value : undefined
  const failed: unknown = choices.find((choice) => field(choice, 'error') || field(choice, 'finish_reason') === 'error')
  return failed === undefined ? undefined : field(failed, 'error') || {}
}

/** The status that an error names by a number or a word; 502 if it names no status. */
function statusOf(error: unknown): number {
  const named = ['code', 'status', 'status_code', 'http_status_code', 'type'].map((name) => field(error, name))
  for (const name of named) {
    const number = typeof name === 'string' || typeof name === 'number' ? Number(name) : Number.NaN
    if (number >= 400 && number < 600) return number
  }
  for (const name of named) {
    const status = typeof name === 'string' ? valueIn(statuses, name) : undefined
    if (status !== undefined) return status
  }
  return 502
}
