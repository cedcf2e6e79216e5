import { ApiError } from '../../errors.ts'
import { field } from '../../fields.ts'
import { UpstreamReason } from '../reason.ts'
import { failureOf, invalidAnswer, networkCode, refusalFrom, type UpstreamRefusal, waitIn } from '../upstream/errors.ts'
import { withoutOwnTexts } from '../upstream/own-texts.ts'
import { ProviderError } from './provider.ts'

/**
 * Translates an error that a provider package threw, or put into its stream. The package's error contains the request, the
 * address and texts of the upstream, so it is not passed on. The message and the cause come from the shared mapping of upstream
 * errors. The package's errors are recognized by names and fields (`AI_APICallError`, `statusCode` …), because a package has its
 * own copies of the AI SDK's classes.
 * @param secrets texts that must not be repeated even if the upstream quotes them
 * @param isAnswering whether the answer had begun
 */
export function failureOfProvider(error: unknown, secrets: readonly string[], isAnswering = false): ApiError {
  const own = ownFailure(error)
  if (own) return own
  const name = error instanceof Error ? error.name : ''
  if (error instanceof ProviderError) {
    const reason = new UpstreamReason(error.message, { said: error.message })
    const message = 'The model is not set up correctly. Tell the operator.'
    return new ApiError(502, 'upstream_error', message, { cause: reason })
  }
  if (name === 'AI_LoadAPIKeyError' || name === 'AI_LoadSettingError') {
    return new ApiError(502, 'upstream_auth_error', "The model's service has no key set up. Tell the operator.")
  }
  if (name === 'AI_UnsupportedFunctionalityError') {
    const what = withoutOwnTexts(String(field(error, 'functionality')), secrets)
    return new ApiError(400, 'unsupported_by_model', `This model does not support something in the request: ${what}.`)
  }
  const status = field(error, 'statusCode')
  if (typeof status === 'number' && status >= 300) return refusalFrom({ status, ...answerIn(error) }, secrets)
  if (name === 'AbortError' || name === 'TimeoutError') return failureOf(error)
  if (networkCode(error) !== undefined) return failureOf(withoutWords(error), isAnswering)
  return invalidAnswer(withoutWords(error))
}

/** An `ApiError` that this service's `fetch` threw inside the package. The package may have wrapped the error. */
function ownFailure(error: unknown): ApiError | undefined {
  let current = error
  for (let depth = 0; depth < 8 && current instanceof Error; depth += 1) {
    if (current instanceof ApiError) return current
    current = current.cause
  }
  return undefined
}

/** The upstream's answer in a package's error: the body of an HTTP answer, or the `data` of an error event in a stream. */
function answerIn(error: unknown): Omit<UpstreamRefusal, 'status'> {
  const body = field(error, 'responseBody')
  return {
    body: typeof body === 'string' ? body : JSON.stringify({ error: field(error, 'data') ?? null }),
    ...waitIn(field(error, 'responseHeaders')),
    host: hostIn(error),
  }
}

/** The host to which the package sent the request. The settings may not contain this host. */
function hostIn(error: unknown): string | undefined {
  return URL.parse(String(field(error, 'url')))?.host
}

/** The parts of an error that the log may have: its name, its status, the network's code and the host. */
function withoutWords(error: unknown): Error {
  const code = networkCode(error)
  const status = field(error, 'statusCode')
  const name = error instanceof Error ? error.name : typeof error
  const message = [name, status, code].filter((word) => word !== undefined).join(' ')
  return new UpstreamReason(message, { code, host: hostIn(error) })
}
