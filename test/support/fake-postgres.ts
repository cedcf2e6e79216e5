import { createServer, type Socket } from 'node:net'

/** A scripted stand-in for PostgreSQL. */
export interface FakePostgres {
  /** The address, such as `127.0.0.1:40123`. */
  readonly place: string
  readonly port: number
  /** The number of connections so far. */
  connections(): number
  close(): Promise<void>
}

/**
 * Starts a server on loopback. The caller closes it.
 * @param onConnection called with each connection
 */
export async function startFakePostgres(onConnection: (socket: Socket) => void): Promise<FakePostgres> {
  const sockets = new Set<Socket>()
  let connections = 0
  const server = createServer((socket) => {
    connections++
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    onConnection(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  }
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return { place: `127.0.0.1:${port}`, port, connections: () => connections, close }
}

/** Refuses each connection with an SQLSTATE and a text, as a server does before authentication. */
export function refusingWith(code: string, text: string) {
  return (socket: Socket) => socket.once('data', () => void socket.end(refusal(code, text)))
}

/** The error message of a refused connection. */
export function refusal(code: string, text: string): Buffer {
  return message('E', `SFATAL\0VFATAL\0C${code}\0M${text}\0\0`)
}

/** Accepts every connection, and answers each query with one value: `version` to the query of the server's version, otherwise 1. */
export function ofVersion(version: string) {
  return (socket: Socket) => {
    const ready = message('Z', 'I')
    socket.once('data', () => {
      socket.write(Buffer.concat([message('R', '\0\0\0\0'), message('K', '\0\0\0\x01\0\0\0\x01'), ready]))
      socket.on('data', (data) => {
        const value = data.includes('server_version_num') ? version : '1'
        const field = Buffer.concat([
          Buffer.from('version\0'),
          Buffer.alloc(6),
          numbers([25, 4], [-1, 2], [-1, 4], [0, 2]),
        ])
        socket.write(
          Buffer.concat([
            message('1', ''),
            message('t', numbers([0, 2])),
            message('T', Buffer.concat([numbers([1, 2]), field])),
            message('2', ''),
            message('D', Buffer.concat([numbers([1, 2], [value.length, 4]), Buffer.from(value)])),
            message('C', 'SELECT 1\0'),
            ready,
          ]),
        )
      })
    })
  }
}

/** The bytes of several integers, each with its length. */
function numbers(...all: readonly (readonly [value: number, bytes: number])[]): Buffer {
  return Buffer.concat(
    all.map(([value, bytes]) => {
      const buffer = Buffer.alloc(bytes)
      buffer.writeIntBE(value, 0, bytes)
      return buffer
    }),
  )
}

/** A message of the protocol (postgresql.org/docs/current/protocol-message-formats.html). */
function message(type: string, body: string | Buffer): Buffer {
  const bytes = Buffer.from(body)
  return Buffer.concat([Buffer.from(type), numbers([bytes.length + 4, 4]), bytes])
}
