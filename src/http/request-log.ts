import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { type Networks, readAddress } from '../networks.ts'
import { PrefetchedRandomIds } from './prefetched-random-ids.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The client's address; the address of a trusted proxy only if the proxy names no client. */
    from: string
    /** Further fields of the request's log line: names and counts, never texts. */
    facts: Record<string, string | number | boolean>
    /** The error code of a 5xx reply; empty otherwise. */
    failure: string
    /** The W3C trace context for requests to upstreams; undefined without tracing. */
    trace: Readonly<Record<string, string>> | undefined
  }
}

/** Observes every request, to count it. */
export interface RequestObserver {
  /** Called when a request begins. @returns the function to call at its end */
  started(method: string): RequestEnded
}

/**
 * Called at the end of a request.
 * @param route the route's pattern, or `unknown`
 * @param status 499 if the client left before the reply was complete
 * @param failure the error code of a 5xx reply; empty otherwise
 */
export type RequestEnded = (route: string, status: number, seconds: number, failure: string) => void

/** Bytes of a request id: so many that the ids of all processes differ, and that nobody can guess an id. */
const idBytes = 16
const randomIds = new PrefetchedRandomIds(idBytes)

/** A new request id, random and unique for all time: log, reply header and ledger have the same id. */
export function makeRequestId(): string {
  return `req_${randomIds.next()}`
}

/**
 * Headers of every reply: browsers must not guess its type, and shared caches must not store it. A reply with another caching
 * rule sets its own `Cache-Control`.
 */
export function commonHeaders(requestId: string): Readonly<Record<string, string>> {
  return { 'x-request-id': requestId, 'x-content-type-options': 'nosniff', 'cache-control': 'private, no-cache' }
}

/**
 * Sets the common headers on every reply. When a request ends, writes one log line for it, and calls the observer.
 * @param proxies proxies whose `X-Forwarded-For` is trusted
 */
export function logRequests(app: FastifyInstance, watch?: RequestObserver, proxies?: Networks): void {
  // `facts` gets its object in the hook: an object here would be shared by all requests.
  app.decorateRequest('facts')
  app.decorateRequest('from', '')
  app.decorateRequest('failure', '')
  app.decorateRequest('trace', undefined)
  app.addHook('onRequest', (request, reply, done) => {
    request.facts = {}
    // The address is read now, since a closed connection has no address any more.
    request.from = callerAddress(request.raw, proxies)
    const ended = watch?.started(request.method)
    reply.headers(commonHeaders(request.id))
    // Fastify's onResponse does not run for a client that leaves before its reply is complete; 'close' always comes.
    reply.raw.on('close', () => {
      const isGone = !reply.raw.writableFinished
      // The route's pattern, not the URL: a path or a query may hold a secret.
      const route = request.routeOptions.url ?? 'unknown'
      const status = isGone ? 499 : reply.statusCode
      ended?.(route, status, reply.elapsedTime / 1000, request.failure)
      const line = {
        request_id: request.id,
        from: request.from,
        method: request.method,
        route,
        status,
        ms: Math.round(reply.elapsedTime * 1000) / 1000,
        ...request.facts,
        ...(isGone ? { state: 'client_gone' } : {}),
      }
      request.log.info(line, 'request')
    })
    done()
  })
}

/** One logger for all requests: a child logger for each costs more than the request's id in each line. */
export function sameLogger<T>(parent: T): T {
  return parent
}

/**
 * The client's address of a request: the rightmost address of `X-Forwarded-For` that is not a trusted proxy's. Addresses further
 * left are not trusted, nor is the header of a connection from an untrusted address. No other header of proxies is read, neither
 * for the host nor for the protocol.
 * @param proxies the trusted proxies; by default none
 * @returns an empty text if the connection is closed already
 */
function callerAddress({ socket, headers }: IncomingMessage, proxies?: Networks): string {
  const { remoteAddress = '' } = socket
  if (!proxies) return remoteAddress.startsWith('::ffff:') ? (readAddress(remoteAddress) ?? '') : remoteAddress
  const forwarded = String(headers['x-forwarded-for'] ?? '').split(',')
  let address = readAddress(remoteAddress) ?? ''
  while (address !== '' && proxies.has(address)) {
    const next = addressOf(forwarded.pop() ?? '')
    if (next === undefined) break
    address = next
  }
  return address
}

/** The address of an entry, which may have a port: `192.0.2.7:4711`, `[2001:db8::7]:4711`. */
function addressOf(entry: string): string | undefined {
  const trimmed = entry.trim()
  const [, inBrackets, beforePort] = /^(?:\[([^\]]+)\]|([\d.]+))(?::\d+)?$/.exec(trimmed) ?? []
  return readAddress(inBrackets ?? beforePort ?? trimmed)
}
