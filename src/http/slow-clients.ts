import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../config.ts'

/** Milliseconds for which a connection waits for its next request. No whole second, so that it is told from a stall. */
const keepAliveTimeout = 72_500

/** Milliseconds. Node looks for requests that take too long so often; every 30 s if it is not told. */
const connectionsCheckingInterval = 1000

/**
 * Fastify's options that bound what a slow client may cost: how long a request, and its head, may take to arrive
 * (a slower one is answered 408), and how long an idle connection waits.
 */
export function timeLimits({ requestTimeoutSeconds }: Pick<Config, 'requestTimeoutSeconds'>) {
  const requestTimeout = requestTimeoutSeconds * 1000
  return {
    requestTimeout,
    keepAliveTimeout,
    http: { headersTimeout: requestTimeout / 4, connectionsCheckingInterval },
  }
}

/**
 * Cuts off clients that for so many milliseconds take nothing of what is written to them: what they have asked for
 * costs memory, an upstream's patience, or a snapshot of the database. Where a model thinks there is nothing to take.
 */
export function cutOffStalledReaders(app: FastifyInstance, stalledFor: number): void {
  const sockets = new Set<Socket>()
  app.server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  // A timer on every connection would cost each request a tenth of its time: only one that is behind gets it.
  const sweep = setInterval(() => {
    for (const socket of sockets) if (socket.writableLength > 0 && !socket.timeout) socket.setTimeout(stalledFor)
  }, stalledFor / 4)
  sweep.unref()
  app.addHook('onClose', async () => clearInterval(sweep))
  // Node tells it again whenever the socket has stood still for so long after it moved; whoever listens must also end
  // the connections that only wait for their next request.
  app.server.on('timeout', (socket) => {
    const isIdle = socket.timeout !== stalledFor
    if (isIdle || socket.writableLength > 0) socket.destroy()
  })
}
