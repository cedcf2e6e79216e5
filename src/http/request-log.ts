import { randomFillSync } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { type Networks, readAddress } from '../networks.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The client's address. If a trusted proxy names no client, this is the address of the proxy. */
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

/** Bytes of a request id. With so many bytes, the ids of all processes differ, and nobody can guess an id. */
const idBytes = 16
/** Random bytes of 256 ids, which are drawn together: drawn alone, the bytes of an id take 2 µs (bench/figures.md). */
const drawn = Buffer.alloc(256 * idBytes)
let used = drawn.length

/** Makes a random request id, which is unique for all time. The log, the reply header and the ledger contain the same id. */
export function makeRequestId(): string {
  if (used === drawn.length) {
    randomFillSync(drawn)
    used = 0
  }
  used += idBytes
  return `req_${drawn.toString('hex', used - idBytes, used)}`
}

/**
 * Headers of every reply. Browsers must not guess the type of a reply, and shared caches must not store the reply. A reply with
 * another caching rule sets its own `Cache-Control`.
 */
export function commonHeaders(requestId: string): Readonly<Record<string, string>> {
  return { 'x-request-id': requestId, 'x-content-type-options': 'nosniff', 'cache-control': 'private, no-cache' }
}

/**
 * Sets the common headers on every reply. When a request ends, writes one log line for it, and calls the observer.
 * @param proxies proxies whose `X-Forwarded-For` is trusted
 */
export function logRequests(app: FastifyInstance, watch?: RequestObserver, proxies?: Networks): void {
  // `facts` gets its object in the hook, because all requests would share an object from here.
  app.decorateRequest('facts')
  app.decorateRequest('from', '')
  app.decorateRequest('failure', '')
  app.decorateRequest('trace', undefined)
  app.addHook('onRequest', (request, reply, done) => {
    request.facts = {}
    // The address is read now, because a closed connection has no address.
    request.from = callerAddress(request.raw, proxies)
    const ended = watch?.started(request.method)
    reply.headers(commonHeaders(request.id))
    // Fastify's onResponse does not run for a client that leaves before its reply is complete. The event 'close' always comes.
    reply.raw.on('close', () => {
      const isGone = !reply.raw.writableFinished
      // The line has the route's pattern and not the URL, because a path or a query may contain a secret.
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

/** Gives all requests the same logger: a child logger for each request costs more than writing the request's id in each line. */
export function sameLogger<T>(parent: T): T {
  return parent
}

/**
 * The address of a request's client: the rightmost address in `X-Forwarded-For` that is not the address of a trusted proxy.
 * Addresses further left are not trusted. On a connection from an untrusted address, the header is not trusted either. No other
 * header of proxies is read, so none for the host or the protocol.
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
