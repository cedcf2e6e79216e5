import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A connection of one's own to a service, to do with as no HTTP client would. */
export interface Connection {
  readonly socket: Socket
  /** All that has come so far. */
  readonly text: () => string
  /** Resolves when the connection is closed, in whatever way. */
  readonly closed: Promise<void>
}

/** Connects to a service and sends it these bytes; the connection is closed when the running test is over. */
export async function connectTo(url: string, bytes = ''): Promise<Connection> {
  const { hostname, port } = new URL(url)
  const pieces: Buffer[] = []
  const socket = connect(Number(port), hostname)
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  // A service that cuts a connection off resets it, and whoever still writes is told so.
  socket.on('error', () => {})
  socket.on('data', (piece) => pieces.push(Buffer.from(piece)))
  onTestFinished(() => {
    socket.destroy()
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', () => resolve())
    socket.once('error', reject)
  })
  socket.write(bytes)
  return { socket, text: () => Buffer.concat(pieces).toString('latin1'), closed }
}
