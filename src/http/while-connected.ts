import type { FastifyRequest } from 'fastify'
import { clientGone } from '../errors.ts'

/**
 * Runs work of a request with a signal that aborts when the client leaves. The signal that Fastify gives to a request is no
 * replacement: it aborts as soon as the body has been read.
 */
export async function whileConnected<T>(
  { raw: { socket } }: Pick<FastifyRequest, 'raw'>,
  run: (signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  const gone = new AbortController()
  const abort = () => gone.abort(clientGone())
  // If the client has already left, the event `close` does not come again.
  if (socket.destroyed) abort()
  else socket.once('close', abort)
  try {
    return await run(gone.signal)
  } finally {
    socket.off('close', abort)
  }
}
