import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A raw connection to a service, for behaviour that HTTP clients do not have. */
export interface Connection {
  readonly socket: Socket
  /** All received bytes so far. */
  readonly text: () => string
  /** Resolves when the connection is closed, for any reason. */
  readonly closed: Promise<void>
}

/** Connects to a service and sends these bytes. The connection is closed at the end of the running test. */
export async function connectTo(url: string, bytes = ''): Promise<Connection> {
  const { hostname, port } = new URL(url)
  const pieces: Buffer[] = []
  const socket = connect(Number(port), hostname)
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  // If the service resets the connection, a socket that still writes gets an error.
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
