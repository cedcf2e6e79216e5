import type { FastifyPluginAsync } from 'fastify'
import { type Guard, requireScope } from '../access/guard.ts'
import { codeOf } from '../errors.ts'
import type { Metrics } from './metrics.ts'

const contentType = 'text/plain; version=0.0.4; charset=utf-8'

/** The parts that the route `/metrics` needs. */
export interface MetricsOptions {
  readonly guard: Guard
  readonly metrics: Metrics
}

/** `GET /metrics` on the main port, for keys with the scope `admin`. */
export const metricsPlugin: FastifyPluginAsync<MetricsOptions> = async (app, { guard, metrics }) => {
  app.addHook('onRequest', guard.admitApiKey)
  app.addHook('onRequest', requireScope('admin'))
  app.get('/metrics', { schema: { hide: true } }, async (_request, reply) =>
    reply.type(contentType).send(metrics.write()),
  )
}

/** The server for the separate port of the metrics. */
export interface MetricsServer {
  /** The base URL, such as `http://127.0.0.1:9464`. */
  readonly address: string
  close(): Promise<void>
}

/**
 * Serves `GET /metrics` without a key on a separate port. Only the operator's tools should be able to reach this port.
 * @throws Error if the server cannot listen on the port; its message says which setting to change
 */
export async function serveMetrics(metrics: Metrics, host: string, port: number): Promise<MetricsServer> {
  // An import would load all exports of `node:http`, even WebSocket, and slow down every start by 30 ms.
  const { createServer } = process.getBuiltinModule('node:http')
  const server = createServer((request, response) => {
    const isKnown = request.url?.split('?', 1)[0] === '/metrics'
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    response.setHeaders(
      new Map([
        ['x-content-type-options', 'nosniff'],
        ['cache-control', 'no-store'],
      ]),
    )
    if (isKnown && isRead) response.writeHead(200, { 'content-type': contentType }).end(metrics.write())
    else {
      const allow = isKnown ? { allow: 'GET, HEAD' } : {}
      response.writeHead(isKnown ? 405 : 404, { 'content-type': 'text/plain', ...allow }).end('Ask for GET /metrics.\n')
    }
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => {
      const reason = codeOf(error) || error.message
      reject(
        new Error(
          `METRICS_PORT ${port} on ${host} cannot be listened on (${reason}). Set METRICS_PORT to another port.`,
        ),
      )
    })
    server.listen(port, host, resolve)
  })
  const bound = server.address()
  const name = host.includes(':') ? `[${host}]` : host
  return {
    address: `http://${name}:${typeof bound === 'object' && bound !== null ? bound.port : port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
