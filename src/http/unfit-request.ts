import type { FastifyInstance } from 'fastify'
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
