import type { Dispatcher } from 'undici'
import { ApiError } from '../errors.ts'

/** Statuses of an upstream that are the caller's doing, and so are told as they are. */
const callersFault = new Set([400, 404, 409, 413, 422])

/** How much of an upstream's error body is read. Bytes. */
const maximumErrorBody = 64 * 1024

/** A failure of the upstream, told without anything that the upstream said. */
export function upstreamFailure(status: number, code: string, message: string, cause?: unknown): ApiError {
  return new ApiError(status, code, message, { cause })
}

/**
 * The error for an upstream's answer that is not a 200. Its key, its address and its HTML never get through.
 * @param secret what must not be repeated even when the upstream quotes it
 */
export async function refusalOf(response: Dispatcher.ResponseData, secret: string | undefined): Promise<ApiError> {
  const status = response.statusCode
  const said = readError(await readStart(response), secret)
  if (status === 401 || status === 403) {
    return upstreamFailure(
      502,
      'upstream_auth_error',
      "The model's service refused the operator's key. Tell the operator.",
    )
  }
  if (status === 429) {
    const retryAfter = response.headers['retry-after']
    return new ApiError(429, 'rate_limit_exceeded', 'The model is asked too often at the moment. Try again later.', {
      ...(typeof retryAfter === 'string' ? { headers: { 'retry-after': retryAfter } } : {}),
    })
  }
  if (callersFault.has(status)) {
    return new ApiError(status, said.code ?? 'upstream_refused', said.message ?? 'The model refused the request.', {
      ...(said.param === undefined ? {} : { param: said.param }),
    })
  }
  return upstreamFailure(502, 'upstream_error', `The model's service failed (${status}). Try again.`)
}

/** The error for whatever went wrong between here and the upstream. */
export function failureOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (/TIMEOUT/.test(code)) {
    return upstreamFailure(504, 'upstream_timeout', 'The model took too long to answer. Try again.', error)
  }
  if (error instanceof Error && error.name === 'AbortError') {
    return upstreamFailure(499, 'client_gone', 'The client went away.', error)
  }
  return upstreamFailure(502, 'upstream_unreachable', "The model's service cannot be reached. Try again later.", error)
}

interface SaidError {
  readonly message?: string
  readonly code?: string
  readonly param?: string
}

/** What an upstream's JSON error body says, cleaned; nothing of a body in another form. */
function readError(body: string, secret: string | undefined): SaidError {
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    return {}
  }
  const error = field(value, 'error')
  const message = typeof error === 'string' ? error : field(error, 'message')
  const code = field(error, 'code')
  const param = field(error, 'param')
  return {
    ...(typeof message === 'string' ? { message: cleaned(message, secret) } : {}),
    ...(typeof code === 'string' && /^\w{1,64}$/.test(code) ? { code } : {}),
    ...(typeof param === 'string' && /^[\w.[\]]{1,100}$/.test(param) ? { param } : {}),
  }
}

/** An upstream's sentence without addresses, keys and markup. */
function cleaned(message: string, secret: string | undefined): string {
  const known = secret ? message.replaceAll(secret, '…') : message
  return known
    .slice(0, 1000)
    .replace(/<[^>]*>/g, '')
    .replace(/\b[a-z][a-z0-9+.-]*:\/\/\S+/gi, '…')
    .replace(/\b(?:sk|pk|key|api[-_]?key|token|bearer)\b[-_=: ]+\S+/gi, '…')
    .replace(/\b[A-Za-z0-9_-]{32,}\b/g, '…')
}

function field(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return Object.entries(value).find(([key]) => key === name)?.[1]
}

async function readStart({ body }: Dispatcher.ResponseData): Promise<string> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of body) {
    size += piece.length
    pieces.push(piece)
    if (size > maximumErrorBody) break
  }
  return Buffer.concat(pieces).toString('utf8')
}
