import type { Socket } from 'node:net'
import type { FastifyContentTypeParser, FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError, clientGone, toApiError } from '../errors.ts'
import { smallBytes } from './bytes-in-flight.ts'

/** After a refusal, a client that still sends has this time to read the reply before its connection is closed. */
export const lingerMs = 1000

/** A body of more bytes is read by a worker. It is collected in shared memory, so that a worker gets it without a copy. */
export const inlineBodyBytes = 128 * 1024

/** Parses a body. @returns the value for `request.body`, or a promise of the value @throws the refusal of an invalid body */
type ParseBody = (request: FastifyRequest, body: Buffer) => unknown

/** Registers a parser for bodies of these content types. */
export function takeBodies(app: FastifyInstance, types: string | string[], parse: ParseBody): void {
  app.addContentTypeParser(types, bodyReader(parse))
}

/**
 * Makes a function that reads and parses a body, and counts its bytes as they arrive, not as `Content-Length` announces them.
 * @throws ApiError 415 for a body in a content coding, 413 beyond the route's limit, 503 when too many bytes are in flight; Node's
 *   error when the client has left. After a 413 or a 503 the connection is closed, because the client may still be sending
 */
function bodyReader(parse: ParseBody): FastifyContentTypeParser {
  return (request, payload, done) => {
    if (isCoded(request.headers['content-encoding'])) throw coded()
    const limit = request.routeOptions.bodyLimit
    const announced = Number(request.headers['content-length'])
    if (announced > limit) {
      lingerBeforeClosing(payload.socket)
      throw tooLarge()
    }
    const body = new CollectedBody(Number.isNaN(announced) ? limit : announced)
    const take = (piece: Buffer) => {
      const length = body.length + piece.length
      try {
        if (length > limit) throw tooLarge()
        if (length > smallBytes) request.held?.set(length)
        body.add(piece)
      } catch (error) {
        lingerBeforeClosing(payload.socket)
        payload.off('data', take).off('end', finish).off('error', done)
        payload.on('error', () => {}).resume()
        done(toApiError(error))
      }
    }
    const finish = () => {
      let parsed: unknown
      try {
        parsed = parse(request, body.bytes())
      } catch (error) {
        return done(toApiError(error))
      }
      if (parsed instanceof Promise) parsed.then((value) => done(null, value), done)
      else done(null, parsed)
    }
    payload.on('data', take).once('end', finish).once('error', done)
  }
}

/** Collects the pieces of a body. Most bodies arrive in one piece, which is not copied. */
class CollectedBody {
  readonly #most: number
  /** The first piece, until the second arrives. */
  #only: Buffer | undefined
  #block: Buffer = Buffer.alloc(0)
  length = 0

  /** @param most the bytes that the body can have */
  constructor(most: number) {
    this.#most = most
  }

  add(piece: Buffer): void {
    if (this.length === 0) this.#only = piece
    else {
      if (this.length + piece.length > this.#block.length) this.#grow(this.length + piece.length)
      this.#block.set(piece, this.length)
    }
    this.length += piece.length
  }

  bytes(): Buffer {
    return this.#only ?? this.#block.subarray(0, this.length)
  }

  /** Makes a larger block: four times as large, so that each byte is copied at most once or twice. */
  #grow(needed: number): void {
    const before = this.bytes()
    const size = Math.min(this.#most, 4 * needed)
    this.#block = size > inlineBodyBytes ? Buffer.from(new SharedArrayBuffer(size)) : Buffer.allocUnsafe(size)
    this.#block.set(before)
    this.#only = undefined
  }
}

/** Whether a `Content-Encoding` names another coding than `identity`. */
function isCoded(codings: string | undefined): boolean {
  if (codings === undefined) return false
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
