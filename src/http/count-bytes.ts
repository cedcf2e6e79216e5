import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { freeBytes } from './body.ts'
import { type BytesInFlight, type HeldBytes, smallBytes } from './bytes-in-flight.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The bytes that it holds until its reply is over; null while it is not known to hold more than a few. */
    held: HeldBytes | null
  }
}

/** What a reply says of the body that it was to have. */
const headersOfBody = ['content-disposition', 'content-length', 'etag', 'link', 'location', 'x-export-losses']

/**
 * Has large bodies and large replies counted, and refused where there is no room for them. Streams are not: they
 * wait for their readers, and hold next to nothing.
 * @param accountOf whose bytes they are
 */
export function countBytes(
  app: FastifyInstance,
  inFlight: BytesInFlight,
  accountOf: (request: FastifyRequest) => number,
): void {
  app.decorateRequest('held', null)
  const open = (request: FastifyRequest, reply: FastifyReply): HeldBytes => {
    const held = inFlight.open(accountOf(request))
    if (reply.raw.destroyed) held.release()
    else reply.raw.once('close', () => held.release())
    request.held = held
    return held
  }

  app.addHook('preParsing', (request, reply, _payload, done) => {
    const { headers } = request
    if (Number(headers['content-length']) > smallBytes || headers['transfer-encoding'] !== undefined) {
      open(request, reply)
    }
    done()
  })

  // What is refused waits for no collection: many are, one after the other.
  app.addHook('onError', ({ body }, _reply, _error, done) => {
    if (Buffer.isBuffer(body)) freeBytes(body)
    done()
  })

  app.addHook('onSend', (request, reply, payload, done) => {
    if ((typeof payload !== 'string' && !Buffer.isBuffer(payload)) || request.method === 'HEAD') return done()
    // In UTF-8 a text has a byte to each character at least.
    if (payload.length <= smallBytes) return done()
    try {
      const held = request.held ?? open(request, reply)
      held.set(Buffer.byteLength(payload))
    } catch (error) {
      for (const name of headersOfBody) reply.removeHeader(name)
      throw error
    }
    // In place of the request's: the work is done.
    request.body = undefined
    done()
  })
}
