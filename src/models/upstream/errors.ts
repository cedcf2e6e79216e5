import { ApiError, clientGone } from '../../errors.ts'
import { field } from '../../fields.ts'
import type { UpstreamResponse } from './connections.ts'

/** Statuses of an upstream that are the caller's doing, and so are told as they are. */
const callersFault = new Set([400, 404, 409, 413, 422])

/** How much of an upstream's error body is read. Bytes. */
const maximumErrorBody = 64 * 1024
/** Milliseconds that it may take. */
const errorBodyFor = 1000

/** How much of an upstream's sentence is looked at and repeated. Characters. */
const maximumMessage = 1000

/**
 * How upstreams say that the conversation is too long, where they have no code for it:
 * Anthropic ("prompt is too long: 208310 tokens > 200000 maximum", "input length and `max_tokens` exceed context limit"),
 * Google ("The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."),
 * OpenAI and vLLM ("This model's maximum context length is 8192 tokens."),
 * llama.cpp ("the request exceeds the available context size").
 */
const contextTooLong =
  /prompt is too long|exceeds? (?:the |your )?(?:available )?context (?:limit|size|window|length)|input token count.{0,40}exceeds the maximum|maximum context length/i

/**
 * How upstreams say, in a 400, that it is the operator's key or account:
 * Google ("API key not valid. Please pass a valid API key.", "Please enable billing on your project in Google AI Studio."),
 * Anthropic ("Your credit balance is too low to access the Anthropic API.").
 */
const operatorsAccount = /API key (?:not valid|not found|expired)|enable billing|credit balance is too low/i

/** A failure of the upstream, told without anything that the upstream said. */
export function upstreamFailure(status: number, code: string, message: string, cause?: unknown): ApiError {
  return new ApiError(status, code, message, { cause })
}

/** An upstream's answer that is not a success. */
export interface UpstreamRefusal {
  readonly status: number
  /** The `retry-after` header, as it came. */
  readonly retryAfter?: string | undefined
  /** The start of the body, in whatever form. */
  readonly body: string
}

/**
 * The error for an upstream's answer that is not a success, the same for every adapter.
 * Its key, its address and its HTML never get through.
 * @param secrets what must not be repeated even when the upstream quotes it
 */
export function refusalFrom({ status, retryAfter, body }: UpstreamRefusal, secrets: readonly string[]): ApiError {
  const said = readError(body)
  if (isOperatorsFault(status, said)) {
    return upstreamFailure(
      502,
      'upstream_auth_error',
      "The model's service refused the operator's key. Tell the operator.",
    )
  }
  const wait = seconds(retryAfter) ?? said.retryAfter
  const headers = wait === undefined ? {} : { headers: { 'retry-after': wait } }
  if (status === 429) {
    return new ApiError(
      429,
      'rate_limit_exceeded',
      'The model is asked too often at the moment. Try again later.',
      headers,
    )
  }
  if (callersFault.has(status)) return callersError(status, said, secrets)
  return new ApiError(502, 'upstream_error', `The model's service failed (${status}). Try again.`, headers)
}

function isOperatorsFault(status: number, { message = '' }: SaidError): boolean {
  return status === 401 || status === 402 || status === 403 || (status === 400 && operatorsAccount.test(message))
}

/** The error for what the caller can mend, in the upstream's own words as far as they may be repeated. */
function callersError(status: number, said: SaidError, secrets: readonly string[]): ApiError {
  const message = said.message === undefined ? 'The model refused the request.' : cleaned(said.message, secrets)
  if (said.code === 'context_length_exceeded' || contextTooLong.test(said.message ?? '')) {
    return new ApiError(400, 'context_length_exceeded', message, { param: said.param ?? 'messages' })
  }
  const param = said.param === undefined ? {} : { param: said.param }
  return new ApiError(status, said.code ?? 'upstream_refused', message, param)
}

/** The error for an HTTP answer of an upstream that is not a 200; its body is read for that, and given up after a while. */
export async function refusalOf(response: UpstreamResponse, secrets: readonly string[]): Promise<ApiError> {
  const retryAfter = response.headers['retry-after']
  return refusalFrom(
    {
      status: response.status,
      retryAfter: typeof retryAfter === 'string' ? retryAfter : undefined,
      body: await readStart(response),
    },
    secrets,
  )
}

/**
 * The error for whatever went wrong between here and the upstream.
 * @param isAnswering whether its answer had begun
 */
export function failureOf(error: unknown, isAnswering = false): ApiError {
  if (error instanceof ApiError) return error
  const name = error instanceof Error ? error.name : ''
  const cause = withoutData(error)
  if (name === 'TimeoutError' || /TIMEOUT|TIMEDOUT/.test(networkCode(error) ?? '')) {
    return upstreamFailure(504, 'upstream_timeout', 'The model took too long to answer. Try again.', cause)
  }
  if (name === 'AbortError') return clientGone(cause)
  if (isAnswering) return brokenOff(cause)
  return upstreamFailure(502, 'upstream_unreachable', "The model's service cannot be reached. Try again later.", cause)
}

/** A network error's words alone: others of its properties may hold what the upstream sent. */
function withoutData(error: unknown): Error {
  const code = networkCode(error)
  const said = error instanceof Error ? `${error.name}: ${error.message}` : 'not an error'
  return new Error(code === undefined ? said : `${code}, ${said}`)
}

/** The error for an answer that ends too early. */
export function brokenOff(cause?: unknown): ApiError {
  return upstreamFailure(502, 'upstream_error', 'The model broke off before its answer was complete. Ask again.', cause)
}

/** The error for an answer that is nothing that a model answers. */
export function notUnderstood(cause?: unknown): ApiError {
  return upstreamFailure(502, 'upstream_error', 'The answer of the model was not understood. Ask again.', cause)
}

/** The error for an answer that is larger, or has more in it, than is taken. */
export function tooMuch(): ApiError {
  return upstreamFailure(502, 'upstream_error', 'The model sent more at once than is taken. Ask again.')
}

/** The code of the network's own error (`ECONNREFUSED`, `UND_ERR_SOCKET` …), which may be the cause of others. */
export function networkCode(error: unknown): string | undefined {
  let current = error
  for (let depth = 0; depth < 8 && current instanceof Error; depth += 1) {
    const code = field(current, 'code')
    if (typeof code === 'string') return code
    current = current.cause
  }
  return undefined
}

interface SaidError {
  /** As it came: to be cleaned before anybody sees it. */
  readonly message?: string
  readonly code?: string
  readonly param?: string
  /** Seconds, from the body. */
  readonly retryAfter?: string
}

/** What an upstream's JSON error body says; nothing of a body in another form. */
function readError(body: string): SaidError {
  let parsed: unknown
  try {
    parsed = JSON.parse(body)
  } catch {
    return {}
  }
  const value: unknown = Array.isArray(parsed) ? parsed[0] : parsed
  const error = field(value, 'error') ?? value
  const message = typeof error === 'string' ? error : field(error, 'message')
  const code = field(error, 'code')
  const param = field(error, 'param')
  const retryAfter = retryDelay(field(error, 'details'))
  return {
    ...(typeof message === 'string' ? { message: message.slice(0, 4 * maximumMessage) } : {}),
    ...(typeof code === 'string' && /^\w{1,64}$/.test(code) ? { code } : {}),
    ...(typeof param === 'string' && /^[\w.[\]]{1,100}$/.test(param) ? { param } : {}),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  }
}

/** A `Retry-After` in seconds; in its other form, a date, it is as many seconds from now (RFC 9110, section 10.2.3). */
function seconds(retryAfter: string | undefined): string | undefined {
  if (retryAfter === undefined || /^\d{1,6}$/.test(retryAfter)) return retryAfter
  const date = /^[A-Z][a-z]{2}, [\w: ]+ GMT$/.test(retryAfter) ? Date.parse(retryAfter) : Number.NaN
  return Number.isNaN(date) ? undefined : String(Math.max(0, Math.ceil((date - Date.now()) / 1000)))
}

/** Google's wait, a `google.rpc.RetryInfo` among the details (`"retryDelay": "34.5s"`), in whole seconds. */
function retryDelay(details: unknown): string | undefined {
  if (!Array.isArray(details)) return undefined
  const delays = details.map((detail: unknown) => field(detail, 'retryDelay'))
  const seconds = delays.flatMap((delay) => /^(\d{1,6}(?:\.\d{1,9})?)s$/.exec(String(delay))?.[1] ?? [])[0]
  return seconds === undefined ? undefined : String(Math.ceil(Number(seconds)))
}

/** An upstream's sentence without addresses, keys and markup. */
export function cleaned(message: string, secrets: readonly string[]): string {
  const known = secrets.reduce((text, secret) => text.replaceAll(secret, '…'), message)
  return known
    .slice(0, maximumMessage)
    .replace(/<[^>]*>/g, '')
    .replace(/\b[a-z][a-z0-9+.-]*:\/\/\S+/gi, '…')
    .replace(/\b(?:sk|pk)[-_]\S+|\bbearer\s+\S+/gi, '…')
    .replace(/\b(?:key|api[-_]?key|token|secret)\b(?:\s*[=:]\s*\S+|[-_ ]+(?=\S*[\d…])\S+)/gi, '…')
    .replace(/\b[A-Za-z0-9_-]{32,}\b/g, '…')
}

/** An answer as it comes, and what ends it. */
export interface Pieces extends AsyncIterable<Uint8Array> {
  return(): Promise<unknown>
}

/** The start of an error's body, as much as comes within a second. */
export async function readStart(response: Pieces): Promise<string> {
  const pieces: Uint8Array[] = []
  let size = 0
  const giveUp = setTimeout(() => void response.return(), errorBodyFor)
  try {
    for await (const piece of response) {
      size += piece.length
      pieces.push(piece)
      if (size > maximumErrorBody) break
    }
  } catch {
    // The status says what matters: what has come of the body must do.
  } finally {
    clearTimeout(giveUp)
  }
  return Buffer.concat(pieces).toString('utf8')
}
