import { getSystemErrorMap } from 'node:util'
import { ApiError, clientGone } from '../../errors.ts'
import { type Fields, field, isFields, valueIn } from '../../fields.ts'
import { UpstreamReason } from '../reason.ts'
import { readErrorBody, type UpstreamErrorBody } from './error-body.ts'
import { isOperatorsAccount, knownCodeOf, meansContextTooLong, meansUnsupportedInput } from './error-patterns.ts'
import { withoutOwnTexts } from './own-texts.ts'
import type { UpstreamAnswer } from './streamless-response.ts'

/** Statuses of an upstream for a fault of the caller. The caller gets the same status, unless an error pattern matches. */
const callersStatuses = new Set([400, 404, 409, 413, 422])

/** Whether a status is a success: some gateways answer 201. */
export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}

/** How many bytes of an upstream's error body are read. */
const maxErrorBodyBytes = 64 * 1024
/** How long an upstream's error body is read. */
const errorBodyTimeoutMs = 1000

/** An upstream's answer that is not a success. */
export interface UpstreamRefusal {
  readonly status: number
  /** The headers `retry-after` and `retry-after-ms`, unchanged. */
  readonly retryAfter?: string | undefined
  readonly retryAfterMs?: string | undefined
  /** The start of the body, in any form, or the parsed error in the body of a 200. */
  readonly body: string | { readonly error: unknown }
  /** Whether the error was in the body of a 200. Then only the error's message says what went wrong. */
  readonly isInside?: boolean
  /** The host to which a provider package sent the request. The settings may not contain this host. */
  readonly host?: string | undefined
}

/** A refusal whose body is not parsed yet. */
export interface ReadRefusal extends UpstreamRefusal {
  readonly body: string
}

/**
 * The error for an upstream's answer that is not a success, the same for every adapter. Keys and addresses are removed from the
 * upstream's message.
 * @param secrets texts that must not be repeated even if the upstream quotes them
 */
export function refusalFrom(refusal: UpstreamRefusal, secrets: readonly string[]): ApiError {
  const { status, host } = refusal
  const body = readErrorBody(refusal.body)
  const said = body.message === undefined ? undefined : withoutOwnTexts(body.message, secrets).trim()
  const reason = new UpstreamReason(`it answered ${status}`, { status, code: knownCodeOf(body), said, host })
  return publicError(refusal, body, /\p{L}/u.test(said ?? '') ? said : undefined).withCause(reason)
}

/** The error that the caller gets. @param sentence the upstream's message without keys and addresses, if it has words */
function publicError(refusal: UpstreamRefusal, body: UpstreamErrorBody, sentence: string | undefined): ApiError {
  const { status, isInside } = refusal
  if ([401, 402, 403].includes(status) || isOperatorsAccount(status, body)) {
    const message = "The model's service refused the operator's key. Tell the operator."
    return new ApiError(502, 'upstream_auth_error', message)
  }
  const headers = waitOf(refusal, body)
  if (status === 429) {
    const message = 'The model is asked too often at the moment. Try again later.'
    return new ApiError(429, 'rate_limit_exceeded', message, { headers })
  }
  if (meansContextTooLong(body)) return callersError('context_length_exceeded', body, sentence)
  if (meansUnsupportedInput(body)) return callersError('unsupported_input', body, sentence)
  if (callersStatuses.has(status))
    return callersError(knownCodeOf({ code: body.code }) ?? 'upstream_refused', body, sentence, status)
  const message = isInside
    ? (sentence ?? 'The model reported an error instead of an answer. Ask again.')
    : `The model's service failed (${status}). Try again.`
  return new ApiError(502, 'upstream_error', message, { headers })
}

/** The error for a fault of the caller, with the upstream's own message. */
function callersError(
  code: string,
  { param = code === 'context_length_exceeded' ? 'messages' : undefined, code: sentCode }: UpstreamErrorBody,
  sentence = 'The model refused the request.',
  status = 400,
): ApiError {
  const shownCode = code === 'upstream_refused' ? sentCode : undefined
  return new ApiError(status, code, sentence, { shownCode, ...(param === undefined ? {} : { param }) })
}

/** Reads an answer that is not a 200. Only the start of a slow or long body is read. */
export async function readRefusal(response: UpstreamAnswer): Promise<ReadRefusal> {
  return { status: response.status, ...waitIn(response.headers), body: await readStart(response) }
}

/**
 * The error for any failure between this service and the upstream.
 * @param isAnswering whether the answer had begun
 */
export function failureOf(error: unknown, isAnswering = false): ApiError {
  if (error instanceof ApiError) return error
  const name = error instanceof Error ? error.name : ''
  const cause = withoutData(error)
  if (name === 'TimeoutError' || /TIMEOUT|TIMEDOUT/.test(networkCode(error) ?? '')) {
    return new ApiError(504, 'upstream_timeout', 'The model took too long to answer. Try again.', { cause })
  }
  // undici also throws an AbortError when a proxy refuses a tunnel, but only that AbortError has a code.
  if (name === 'AbortError' && networkCode(error) === undefined) return clientGone(cause)
  if (isAnswering) return brokenOff(cause)
  return new ApiError(502, 'upstream_unreachable', "The model's service cannot be reached. Try again later.", { cause })
}

/**
 * A copy of an error with only its name, and for a network error also its code and message. Other properties, and messages of
 * other errors, may contain what the upstream sent.
 */
function withoutData(error: unknown): Error {
  if (error instanceof UpstreamReason) return error
  const code = networkCode(error)
  if (!(error instanceof Error)) return new UpstreamReason('not an error')
  return new UpstreamReason(code === undefined ? error.name : `${code}, ${error.name}: ${error.message}`, { code })
}

/** The error for an answer that ends too early. */
export function brokenOff(cause?: unknown): ApiError {
  return new ApiError(502, 'upstream_error', 'The model broke off before its answer was complete. Ask again.', {
    cause,
  })
}

/** The error for an answer of an unknown shape. */
export function invalidAnswer(cause?: unknown): ApiError {
  return new ApiError(502, 'upstream_error', 'The answer of the model was not understood. Ask again.', { cause })
}

/** The error for an answer over a bound. */
export function tooLarge(): ApiError {
  return new ApiError(502, 'upstream_error', 'The model sent more at once than this service accepts. Ask again.')
}

/** The code of a network error (`ECONNREFUSED`, `UND_ERR_SOCKET` …). Other errors may wrap the network error as their cause. */
export function networkCode(error: unknown): string | undefined {
  let current = error
  for (let depth = 0; depth < 8 && current instanceof Error; depth += 1) {
    const code = field(current, 'code')
    if (typeof code === 'string' && isNetworkCode(code)) return code
    current = current.cause
  }
  return undefined
}

/** The codes of the system, and of Node's look-ups of names. */
const systemCodes: ReadonlySet<string> = new Set([
  'ENOTFOUND',
  ...[...getSystemErrorMap().values()].map(([name]) => name),
])
/** The codes of Node, undici, the HTTP parser and zlib, and OpenSSL's codes of certificates. */
const libraryCode =
  /^(?:(?:UND_ERR|ERR|HPE|Z)_[A-Z0-9_]{1,60}|(?=[A-Z_]{1,60}$)\w*(?:CERT|CRL|UNABLE_TO|PATH_LENGTH|INVALID_(?:CA|PURPOSE)|HOSTNAME_MISMATCH)\w*)$/

/** Whether a code has a form of the codes of networks. An error of a package may have a code of an upstream instead. */
function isNetworkCode(code: string): boolean {
  return systemCodes.has(code) || libraryCode.test(code)
}

/** The headers that say when to retry. */
export function waitIn(headers: unknown): Pick<UpstreamRefusal, 'retryAfter' | 'retryAfterMs'> {
  const text = (name: string) => {
    const value = field(headers, name)
    return typeof value === 'string' ? value : undefined
  }
  return { retryAfter: text('retry-after'), retryAfterMs: text('retry-after-ms') }
}

/** The reply headers that say when to retry: in whole seconds (RFC 9110), and in milliseconds if the upstream sent these too. */
function waitOf(
  { retryAfter, retryAfterMs }: UpstreamRefusal,
  said: UpstreamErrorBody,
): Readonly<Record<string, string>> {
  const milliseconds = /^\d{1,9}(?:\.\d{1,9})?$/.test(retryAfterMs ?? '') ? Math.ceil(Number(retryAfterMs)) : undefined
  if (milliseconds !== undefined) {
    return { 'retry-after': String(Math.ceil(milliseconds / 1000)), 'retry-after-ms': String(milliseconds) }
  }
  const wait = seconds(retryAfter) ?? said.retryAfter
  return wait === undefined ? {} : { 'retry-after': wait }
}

/** The most seconds of a `Retry-After`: the number has at most six digits. */
const maxWaitSeconds = 999_999

/**
 * A `Retry-After` in whole seconds. A date, the other form of the header, becomes seconds from now (RFC 9110, section 10.2.3). Some
 * services send a fraction, or a date of another form.
 */
function seconds(retryAfter = ''): string | undefined {
  if (/^\d{1,6}(?:\.\d{1,9})?$/.test(retryAfter)) return String(Math.ceil(Number(retryAfter)))
  const isDate = /^(?:[A-Z][a-z]{2,8},? [\w: -]+|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d))$/.test(retryAfter)
  // The oldest form of RFC 9110 has no time zone, and is in GMT.
  const date = isDate
    ? Date.parse(/(?:GMT|Z|[+-]\d\d:\d\d)$/.test(retryAfter) ? retryAfter : `${retryAfter} GMT`)
    : Number.NaN
  return Number.isNaN(date)
    ? undefined
    : String(Math.min(maxWaitSeconds, Math.max(0, Math.ceil((date - Date.now()) / 1000))))
}

/** The pieces of an answer as they arrive; `return` aborts the answer. */
interface Pieces extends AsyncIterable<Uint8Array> {
  return(): Promise<unknown>
}

/** Reads the start of an error body: for at most a second, and until it has more than 64 KiB. */
export async function readStart(response: Pieces): Promise<string> {
  const pieces: Uint8Array[] = []
  let size = 0
  const giveUp = setTimeout(() => void response.return(), errorBodyTimeoutMs)
  try {
    for await (const piece of response) {
      size += piece.length
      pieces.push(piece)
      if (size > maxErrorBodyBytes) break
    }
  } catch {
    // The part of the body that has arrived is used. Even without a body, the status is enough.
  } finally {
    clearTimeout(giveUp)
  }
  return Buffer.concat(pieces).toString('utf8')
}

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
