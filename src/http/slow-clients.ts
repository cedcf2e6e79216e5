import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../config.ts'

/**
 * How long a connection waits for its next request. Node adds a second before it closes the connection. This time is not a whole
 * number of seconds, but the timeouts of stalled readers are. So the listener of `timeout` below can distinguish an idle
 * connection from a stalled reader.
 */
const keepAliveTimeoutMs = 72_500

/** The time between Node's checks for requests that take too long. Node's own default is 30 s. */
const checkIntervalMs = 1000

/**
 * Fastify's options against slow clients: how long a request and its headers may take to arrive, and how long an idle connection
 * stays open. A slower request gets a 408.
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
 * Closes the connections of clients that do not read their reply and send no byte during `stallMs`, because an unread reply holds
 * memory, an upstream's connection, or a snapshot of the database. A client that waits for a model has nothing to read, so its
 * connection stays open.
 */
export function cutOffStalledReaders(app: FastifyInstance, stallMs: number): void {
  const sockets = new Set<Socket>()
  app.server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  // A timer on every connection would cost each request a tenth of its time. So only a connection with unsent bytes gets a timer.
  const sweep = setInterval(() => {
    for (const socket of sockets) if (socket.writableLength > 0 && !socket.timeout) socket.setTimeout(stallMs)
  }, stallMs / 4)
  sweep.unref()
  app.addHook('onClose', async () => clearInterval(sweep))
  // Node emits `timeout` when a socket has been idle for its timeout. If there is a listener, Node does not close idle
  // connections, so this listener also closes idle connections.
  app.server.on('timeout', (socket) => {
    const isIdle = socket.timeout !== stallMs
    if (isIdle || socket.writableLength > 0) socket.destroy()
  })
}
