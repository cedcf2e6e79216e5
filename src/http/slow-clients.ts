import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../config.ts'

/** Milliseconds for which a connection waits for its next request. No whole second, so that it is told from a stall. */
const keepAliveTimeoutMs = 72_500

/** Milliseconds. Node looks for requests that take too long so often; every 30 s if it is not told. */
const checkIntervalMs = 1000

/**
 * Fastify's options that bound what a slow client may cost: how long a request, and its head, may take to arrive
 * (a slower one is answered 408), and how long an idle connection waits.
 */
export function timeLimits({ requestTimeoutSeconds }: Pick<Config, 'requestTimeoutSeconds'>) {
  const requestTimeoutMs = requestTimeoutSeconds * 1000
  return {
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    http: { headersTimeout: requestTimeoutMs / 4, connectionsCheckingInterval: checkIntervalMs },
  }
}

/**
 * Cuts off clients that for so many milliseconds take nothing of what is written to them: what they have asked for
 * costs memory, an upstream's patience, or a snapshot of the database. Where a model thinks there is nothing to take.
 */
export function cutOffStalledReaders(app: FastifyInstance, stallMs: number): void {
  const sockets = new Set<Socket>()
  app.server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  // A timer on every connection would cost each request a tenth of its time: only one that is behind gets it.
  const sweep = setInterval(() => {
    for (const socket of sockets) if (socket.writableLength > 0 && !socket.timeout) socket.setTimeout(stallMs)
  }, stallMs / 4)
  sweep.unref()
  app.addHook('onClose', async () => clearInterval(sweep))
  // Node tells it again whenever the socket has stood still for so long after it moved; whoever listens must also end
  // the connections that only wait for their next request.
  app.server.on('timeout', (socket) => {
    const isIdle = socket.timeout !== stallMs
    if (isIdle || socket.writableLength > 0) socket.destroy()
  })
}
