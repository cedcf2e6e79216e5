import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../errors.ts'

/**
 * Refuses, in the group's own shape, what Node would refuse with an empty body: HTTP/1.1 without a `Host`
 * (RFC 9112, section 3.2), and expectations that nobody here can meet (RFC 9110, section 10.1.1).
 */
export function refuseUnfitRequests(app: FastifyInstance): void {
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    const { host, expect } = raw.headers
    if (host === undefined && raw.httpVersion === '1.1') {
      done(new ApiError(400, 'missing_host', 'The request has no Host header. Send one.'))
    } else if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
      done(new ApiError(417, 'unknown_expectation', 'This Expect header cannot be met. Leave it out.'))
    } else {
      done()
    }
  })
}

const methods = ['DELETE', 'GET', 'HEAD', 'PATCH', 'POST', 'PUT']

/**
 * Answers what no route matches, before its body is read: 405 with `Allow` where the path exists for other methods
 * (RFC 9110, section 15.5.6), 404 elsewhere. A group that wants its own error shape there calls
 * `setNotFoundHandler()` within its prefix.
 */
export function refuseUnknownRoutes(app: FastifyInstance): void {
  app.addHook('onRequest', (request: FastifyRequest, _reply, done) => {
    if (request.is404) done(refusalOf(app, request))
    else done()
  })
}

/** The 405 or 404 for what no route matches. */
function refusalOf(app: FastifyInstance, request: FastifyRequest): ApiError {
  const path = request.url.split('?', 1)[0] ?? '/'
  const allow = methods.filter((method) => app.findRoute({ method, url: path })).join(', ')
  if (allow === '') return unknownRoute()
  return new ApiError(405, 'method_not_allowed', `This path does not answer that method. Use ${allow}.`, {
    headers: { allow },
  })
}

/** The 404 of a path that does not exist. */
export function unknownRoute(): ApiError {
  return new ApiError(404, 'unknown_route', 'There is no such path. See /docs for those that exist.')
}
