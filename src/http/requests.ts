import { randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'

declare module 'fastify' {
  interface FastifyRequest {
    /** What a route wants in the request's one log line besides status and time: names and counts, never texts. */
    facts: Record<string, string | number | boolean>
  }
}

/** Tells the ids of this process from those of every other one. */
const processId = randomBytes(10).toString('hex')
let count = 0

/** A new request id, unique for good: log, reply header and ledger carry the same one. */
export function makeRequestId(): string {
  count++
  return `req_${processId}${count.toString(16).padStart(12, '0')}`
}

/** Puts the request id on every reply, and writes one log line for each when it is done. */
export function tellOfRequests(app: FastifyInstance): void {
  // The null is replaced in the hook: an object here would be shared by all requests.
  app.decorateRequest('facts')
  app.decorateRequest('caller', null)
  app.decorateRequest('requestsLeft', null)
  app.addHook('onRequest', (request, reply, done) => {
    request.facts = {}
    reply.header('x-request-id', request.id)
    // Fastify's onResponse does not run for a client that leaves before its reply is complete; 'close' always comes.
    reply.raw.once('close', () => {
      const isGone = !reply.raw.writableFinished
      // The route's pattern, not the URL: a path or a query may hold a secret.
      const line = {
        request_id: request.id,
        method: request.method,
        route: request.routeOptions.url ?? 'unknown',
        status: isGone ? 499 : reply.statusCode,
        ms: Math.round(reply.elapsedTime * 1000) / 1000,
        key: request.caller?.prefix,
        ...request.facts,
        ...(isGone ? { state: 'client_gone' } : {}),
      }
      request.log.info(line, 'request')
    })
    done()
  })
}
