import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../errors.ts'

/**
 * Refuses two kinds of requests, in the error shape of their group of routes.
 * - Node would refuse the first kind with an empty reply: HTTP/1.1 without a `Host` (RFC 9112, section 3.2), and unknown
 *   expectations (RFC 9110, section 10.1.1).
 * - Node would accept the second kind, but a proxy may read such a request in another way: a header of `singleHeaders` that is
 *   repeated, `Transfer-Encoding` in any version but HTTP/1.1 (RFC 9112, section 6.1; Node's parser accepts 0.9 and 2.0), and
 *   transfer codings before `chunked`, which Node ignores. After a request of this kind the connection is closed, and later
 *   requests on the connection are refused too.
 */
export function refuseUnfitRequests(app: FastifyInstance): void {
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  // The connection closes after the reply to such a request. But Node still delivers requests that were sent behind this request.
  const doubtful = new WeakMap<Socket, ApiError>()
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    const refusal = doubtful.get(raw.socket) ?? unfitnessOf(raw)
    if (refusal?.headers['connection'] === 'close') doubtful.set(raw.socket, refusal)
    done(refusal)
  })
}

/**
 * The headers with one value that the service reads, and the code of the 400 for a second one. Node drops the second `Host`,
 * `Authorization` and `Content-Type`, and joins the others with a comma. All other headers that the service reads may be repeated:
 * they are lists (`Accept`, `Accept-Encoding`, `Accept-Language`, `Access-Control-Request-Headers`, `Content-Encoding`, `Expect`,
 * `If-Match`, `If-None-Match`, `tracestate`, `Transfer-Encoding`, `X-Forwarded-For`), Node's parser refuses the second
 * (`Content-Length`), or two of them count as none (`traceparent`, as W3C Trace Context says).
 */
const singleHeaders: readonly (readonly [name: string, code: string])[] = [
  ['Host', 'two_hosts'],
  ['Authorization', 'two_credentials'],
  ['Content-Type', 'two_content_types'],
  ['Idempotency-Key', 'invalid_idempotency_key'],
  ['Origin', 'two_origins'],
]

function unfitnessOf({ rawHeaders, headers, httpVersion }: IncomingMessage): ApiError | undefined {
  const { host, expect, 'transfer-encoding': coding } = headers
  for (const [name, code] of singleHeaders) {
    if (!isRepeated(rawHeaders, name)) continue
    return ambiguous(400, code, `The request has two ${name} headers. Send exactly one.`)
  }
  if (httpVersion !== '1.1' && coding !== undefined) {
    const message = `HTTP/${httpVersion} has no Transfer-Encoding. Send a Content-Length, or use HTTP/1.1.`
    return ambiguous(400, 'unknown_framing', message)
  }
  // RFC 9112, section 6.1. Node's parser itself refuses a body whose last coding is not `chunked`.
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    const message = 'The only transfer coding here is chunked. Send the body with Transfer-Encoding: chunked alone.'
    return ambiguous(501, 'unknown_transfer_coding', message)
  }
  if (host === undefined && httpVersion === '1.1') {
    return new ApiError(400, 'missing_host', 'The request has no Host header. Send one.')
  }
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    return new ApiError(417, 'unknown_expectation', 'This Expect header cannot be met. Leave it out.')
  }
  return undefined
}

/** The refusal of a request that two servers may read in two ways. */
function ambiguous(status: number, code: string, message: string): ApiError {
  return new ApiError(status, code, message, { headers: { connection: 'close' } })
}

/**
 * Whether a request has a header more than once, in any case of its letters.
 * @param headers Node's `rawHeaders`: each name is followed by its value
 */
function isRepeated(headers: readonly string[], name: string): boolean {
  let count = 0
  for (let index = 0; index < headers.length; index += 2) {
    const given = headers[index]
    // Most names differ in length. Without this comparison, each request would pay for the conversion of all names to lower case.
    if (given?.length === name.length && given.toLowerCase() === name.toLowerCase()) count++
  }
  return count > 1
}

const methods = ['DELETE', 'GET', 'HEAD', 'PATCH', 'POST', 'PUT']

/**
 * Refuses requests without a route before their body is read: 405 with `Allow` if the path has other methods
 * (RFC 9110, section 15.5.6), 404 otherwise.
 */
export function refuseUnknownRoutes(app: FastifyInstance): void {
  app.addHook('onRequest', (request: FastifyRequest, _reply, done) => {
    if (request.is404) done(refusalOf(app, request))
    else done()
  })
}

/** The 405 or 404 of a request without a route. */
function refusalOf(app: FastifyInstance, request: FastifyRequest): ApiError {
  const path = request.url.split('?', 1)[0] ?? '/'
  const allow = methods.filter((method) => app.findRoute({ method, url: path })).join(', ')
  if (allow === '') return unservedRoute(path) ?? unknownRoute(app)
  const isPreflight = request.method === 'OPTIONS' && request.headers.origin !== undefined
  const advice = isPreflight ? ' For pages of other origins the operator sets CORS_ORIGINS.' : ''
  const message = `This path does not support that method. Use ${allow}.${advice}`
  return new ApiError(405, 'method_not_allowed', message, { headers: { allow } })
}

/** Routes of OpenAI that are not served, with the message of their 404. */
const insteadOf: ReadonlyMap<string, string> = new Map([
  ['completions', 'Completions of a bare prompt are not served. Use POST /chat/completions.'],
  ['embeddings', 'Embeddings are not served. Ask a service that has a model for them.'],
  ['moderations', 'Moderations are not served. Ask a service that has a model for them.'],
])

/** The 404 of a route of OpenAI that is not served; undefined for any other path. */
function unservedRoute(path: string): ApiError | undefined {
  const message = insteadOf.get(path.replace(/^\/(?:v1\/)?/, ''))
  return message === undefined ? undefined : new ApiError(404, 'unknown_route', message)
}

/** The 404 of a path that does not exist. The message names `/docs` only if this service has that route. */
export function unknownRoute(app: FastifyInstance): ApiError {
  const hasDocuments = app.hasRoute({ method: 'GET', url: '/docs' })
  const advice = hasDocuments
    ? 'See /docs for the paths that exist.'
    : 'Check it, or ask the operator for the paths that exist.'
  return new ApiError(404, 'unknown_route', `This path does not exist. ${advice}`)
}
