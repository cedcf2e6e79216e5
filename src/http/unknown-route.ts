import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../errors.ts'

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
