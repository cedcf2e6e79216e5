import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type BytesInFlight, type HeldBytes, smallBytes } from './bytes-in-flight.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The bytes that the request holds until its reply is over; null until a body or a reply may have more than `smallBytes`. */
    held: HeldBytes | null
  }
}

/** Headers that describe the body of a reply. A refusal in place of this body must not have these headers. */
const headersOfBody = ['content-disposition', 'content-length', 'etag', 'link', 'location', 'x-export-losses']

/**
 * Counts large bodies and large replies, and refuses them when too many bytes are in flight. Streams are not counted, because
 * backpressure bounds the bytes that a stream holds.
 * @param accountOf finds the account whose bytes are counted
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

  app.addHook('onSend', (request, reply, payload, done) => {
    if ((typeof payload !== 'string' && !Buffer.isBuffer(payload)) || request.method === 'HEAD') return done()
    // A UTF-16 unit has at most three bytes in UTF-8. So the bytes of a short text need not be counted, and most texts are short.
    if (payload.length <= smallBytes / 3) return done()
    const bytes = Buffer.byteLength(payload)
    if (bytes <= smallBytes) return done()
    try {
      const held = request.held ?? open(request, reply)
      held.set(bytes)
    } catch (error) {
      for (const name of headersOfBody) reply.removeHeader(name)
      throw error
    }
    // The work is done, so the body is dropped. The bytes of the reply have replaced the bytes of the body in the count.
    request.body = undefined
    done()
  })
}
