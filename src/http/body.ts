import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { freeBytes } from '../bytes.ts'
import { ApiError } from '../errors.ts'
import { BodyPace } from './body-pace.ts'
import { smallBytes } from './bytes-in-flight.ts'
import { GrowingBytes } from './growing-bytes.ts'

/** After a refusal, a client that still sends has this time to read the reply before its connection is closed. */
export const lingerMs = 1000

/** The pace of all bodies, because there is one event loop. */
const pace = new BodyPace()

/** Parses a body. @returns the value for `request.body`, or a promise of the value @throws the refusal of an invalid body */
type ParseBody = (request: FastifyRequest, body: Buffer) => unknown

/** Registers a parser for bodies of these content types. */
export function takeBodies(app: FastifyInstance, types: string | string[], parse: ParseBody): void {
  app.addContentTypeParser(types, bodyReader(parse))
}

/**
 * Makes a function that reads and parses a body, and counts its bytes as they arrive, not as `Content-Length` announces them.
 * @throws ApiError 415 for a body in a content coding, 413 beyond the route's limit, 503 when too many bytes are in flight; Node's error when the client has left.
 *   After a 413 or a 503 the connection is closed, because the client may still be sending
 */
function bodyReader(parse: ParseBody) {
  return (request: FastifyRequest, payload: IncomingMessage): Promise<unknown> => {
    if (isCoded(request.headers['content-encoding'])) return Promise.reject(coded())
    const limit = request.routeOptions.bodyLimit
    const announced = Number(request.headers['content-length'])
    if (announced > limit) {
      lingerBeforeClosing(payload.socket)
      return Promise.reject(tooLarge())
    }
    let length = 0
    const all = new GrowingBytes(announced)
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const fail = (error: unknown) => {
      payload.off('data', take)
      payload.off('end', end)
      payload.off('error', fail)
      all.free()
      reject(error)
    }
    const take = (piece: Buffer) => {
      length += piece.length
      try {
        if (length > limit) throw tooLarge()
        if (length > smallBytes) request.held?.set(length)
        all.add(piece)
        if (length !== announced) pace.take(payload, piece.length + all.move())
      } catch (error) {
        lingerBeforeClosing(payload.socket)
        fail(error)
        payload.on('data', freeBytes)
      }
    }
    const end = () => {
      // The body is complete, and its bytes are in use now. A later error must not free these bytes.
      payload.off('error', fail)
      all.end()
      gather()
    }
    const gather = () => {
      for (let moved = all.move(); moved > 0; moved = all.move()) if (pace.take(gathering, moved)) return
      const bytes = all.bytes()
      try {
        resolve(parse(request, bytes))
      } catch (error) {
        freeBytes(bytes)
        reject(error)
      }
    }
    const gathering = { pause() {}, resume: gather }
    payload.on('data', take)
    payload.on('end', end)
    payload.on('error', fail)
    return promise
  }
}

/** Whether a `Content-Encoding` names another coding than `identity`. */
function isCoded(codings = ''): boolean {
  return codings.split(',').some((coding) => !['', 'identity'].includes(coding.trim().toLowerCase()))
}

/** The refusal of a compressed body, with the codings that are accepted (RFC 9110, section 15.5.16). */
function coded(): ApiError {
  const message = 'Compressed bodies are not accepted. Send the body as it is, without the header Content-Encoding.'
  return new ApiError(415, 'unsupported_content_coding', message, { headers: { 'accept-encoding': 'identity' } })
}

function tooLarge(): ApiError {
  return new ApiError(413, 'body_too_large', 'The body is larger than this route accepts. Send a smaller one.')
}

/**
 * Delays the close of a connection after the reply, and discards the bytes that still arrive. If the connection were closed with
 * unread bytes, the system would reset the connection, and the client would not see the reply.
 */
function lingerBeforeClosing(socket: Socket): void {
  // Node calls this after the last reply of a connection.
  socket.destroySoon = () => {
    socket.end()
    setTimeout(() => socket.destroy(), lingerMs).unref()
  }
}
