import { createServer, request as forward, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { onTestFinished } from 'vitest'

/** The target of a request or of a tunnel. */
export interface Forwarded {
  readonly method: string
  readonly target: string
  readonly headers: IncomingMessage['headers']
}

/** A proxy on loopback that connects requests for any host to one server. */
export interface ForwardProxy {
  readonly url: string
  readonly asked: Forwarded[]
}

/**
 * Starts a proxy that closes at the end of the running test.
 * @param behind the URL of the server that gets the requests for all hosts
 * @param refuse the status with which the proxy refuses all requests; by default it forwards them
 */
export async function forwardProxyForThisTest(behind: string, refuse?: number): Promise<ForwardProxy> {
  const asked: Forwarded[] = []
  const { hostname, port } = new URL(behind)
  const note = ({ method = '', url = '', headers }: IncomingMessage) =>
    void asked.push({ method, target: url, headers })
  const server = createServer((incoming, response) => {
    note(incoming)
    if (refuse !== undefined) {
      response.writeHead(refuse).end('no')
      return
    }
    const { pathname, search } = new URL(incoming.url ?? '')
    const { method, headers } = incoming
    const outgoing = forward({ hostname, port, path: pathname + search, method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    response.once('close', () => outgoing.destroy())
    outgoing.on('error', () => response.destroy())
    incoming.pipe(outgoing)
  })
  server.on('connect', (incoming, socket) => {
    note(incoming)
    socket.on('error', () => {})
    if (refuse !== undefined) {
      socket.end(`HTTP/1.1 ${refuse} No\r\n\r\n`)
      return
    }
    const other = connect(Number(port), hostname, () => {
      socket.write('HTTP/1.1 200 Connected\r\n\r\n')
      socket.pipe(other).pipe(socket)
    })
    other.on('error', () => socket.destroy())
    socket.once('close', () => other.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  )
  const address = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${address.port}`, asked }
}
