import type { FastifyRequest } from 'fastify'
import { clientGone } from '../errors.ts'

/**
 * Does something for a request with a signal that aborts when the client leaves.
 * The request's own signal aborts as soon as its body has been read.
 */
export async function whileConnected<T>(
  { raw: { socket } }: Pick<FastifyRequest, 'raw'>,
  run: (signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  const gone = new AbortController()
  const abort = () => gone.abort(clientGone())
  socket.once('close', abort)
  try {
    return await run(gone.signal)
  } finally {
    socket.off('close', abort)
  }
}
