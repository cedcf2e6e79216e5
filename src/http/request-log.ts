import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { type Networks, readAddress } from '../networks.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The address that it comes from; that of a trusted proxy only where it forwards for nobody. */
    from: string
    /** What the request's one log line says besides status, time and address: names and counts, never texts. */
    facts: Record<string, string | number | boolean>
    /** The code of the error that it was answered with, where that is a 5xx; empty otherwise. */
    failure: string
    /** W3C trace context for what it asks upstream; undefined where nothing is traced. */
    trace: Readonly<Record<string, string>> | undefined
  }
}

/** Told of every request, to count it. */
export interface RequestObserver {
  /** A request has begun. @returns what is to be told of its end */
  started(method: string): RequestEnded
}

/**
 * Told of the end of one request.
 * @param route its pattern, or `unknown`
 * @param status 499 where the client left before the reply was complete
 * @param failure the code of the error that it was answered with, where that is a 5xx; empty otherwise
 */
export type RequestEnded = (route: string, status: number, seconds: number, failure: string) => void

/** A new request id, random and unique for good: log, reply header and ledger carry the same one. */
export function makeRequestId(): string {
  return `req_${randomUUID().replaceAll('-', '')}`
}

/**
 * What every reply carries: browsers take it for what its type says and nothing else, and no shared cache keeps it. A
 * reply that may be kept by all, or not even by its reader, says so itself.
 */
export function commonHeaders(requestId: string): Readonly<Record<string, string>> {
  return { 'x-request-id': requestId, 'x-content-type-options': 'nosniff', 'cache-control': 'private, no-cache' }
}

/**
 * Puts the common headers on every reply, and writes one log line for each when it is done; the watch is told as well.
 * @param proxies those that are believed whom they forward for
 */
export function logRequests(app: FastifyInstance, watch?: RequestObserver, proxies?: Networks): void {
  // The null is replaced in the hook: an object here would be shared by all requests.
  app.decorateRequest('facts')
  app.decorateRequest('from', '')
  app.decorateRequest('failure', '')
  app.decorateRequest('trace', undefined)
  app.addHook('onRequest', (request, reply, done) => {
    request.facts = {}
    // Now, since a connection that has ended has no address any more.
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

/** One logger for all requests: a child for each costs more than naming the request in each line. */
export function sameLogger<T>(parent: T): T {
  return parent
}

/**
 * The address that a request comes from. A proxy that is trusted is believed whom it forwards for, and that one in its
 * turn: so it is the rightmost address of `X-Forwarded-For` that is no trusted proxy's. What anybody else writes there, and
 * what is left of that, is nothing but a text. No other header of proxies is read at all, neither for the host nor for the protocol.
 * @param proxies those that are trusted; none without it
 * @returns an empty text where the connection has ended before anybody asked
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
