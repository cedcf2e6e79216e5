import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../errors.ts'
import { smallBytes } from './bytes-in-flight.ts'

/** Milliseconds for which a client that still sends may read why it is refused, before its connection is closed. */
export const lingeringFor = 1000

/** Bytes beyond which a piece of a body is worth giving back by itself. */
const ownBytes = 8192

/**
 * Makes an instance take bodies of these types.
 * @param parse what the request's body becomes; a promise of it, or an error, as well
 */
export function takeBodies(
  app: FastifyInstance,
  types: string | string[],
  parse: (request: FastifyRequest, body: Buffer) => unknown,
): void {
  app.addContentTypeParser(types, async (request: FastifyRequest, payload: IncomingMessage) =>
    parse(request, await readBody(request, payload)),
  )
}

/**
 * Reads a body, and has its bytes counted as they come, not as they are announced.
 * @throws ApiError 413 beyond the route's limit, 503 where so many bytes have no room; then the client may still send, and
 *   the connection is closed. Node's error where the client has left
 */
function readBody(request: FastifyRequest, payload: IncomingMessage): Promise<Buffer> {
  const limit = request.routeOptions.bodyLimit
  const announced = Number(request.headers['content-length'])
  if (announced > limit) {
    lingerBeforeClosing(payload.socket)
    throw tooLarge()
  }
  const body = new GrowingBytes(announced)
  return new Promise((resolve, reject) => {
    const stop = () => {
      payload.off('data', take)
      payload.off('end', end)
      payload.off('error', fail)
    }
    const fail = (error: unknown) => {
      stop()
      body.free()
      reject(error)
    }
    const take = (piece: Buffer) => {
      try {
        const length = body.length + piece.length
        if (length > limit) throw tooLarge()
        if (length > smallBytes) request.held?.set(length)
        body.add(piece)
      } catch (error) {
        lingerBeforeClosing(payload.socket)
        fail(error)
      }
    }
    const end = () => {
      stop()
      resolve(body.bytes())
    }
    payload.on('data', take)
    payload.on('end', end)
    payload.on('error', fail)
  })
}

function tooLarge(): ApiError {
  return new ApiError(413, 'body_too_large', 'The body is larger than this route accepts. Send a smaller one.')
}

/**
 * Has a connection, which is to be closed after its reply, closed so that its client still gets that: for a moment, what comes is
 * thrown away. With bytes unread the system would reset the connection, and the client would not see the reply.
 */
function lingerBeforeClosing(socket: Socket): void {
  // What Node calls after the last reply of a connection.
  socket.destroySoon = () => {
    socket.end()
    setTimeout(() => socket.destroy(), lingeringFor).unref()
  }
}

/**
 * Bytes that come in pieces, together in one place: it grows as they come, so that pieces of one byte cost one byte, and
 * what is announced and never comes costs nothing.
 */
class GrowingBytes {
  readonly #announced: number
  #piece: Buffer | undefined
  #place = new Uint8Array()
  #length = 0

  /** @param announced how many are said to come; NaN where nothing is said */
  constructor(announced: number) {
    this.#announced = announced
  }

  get length(): number {
    return this.#length
  }

  add(piece: Buffer): void {
    const length = this.#length + piece.length
    // Most bodies come in one piece.
    if (this.#length === 0) this.#piece = piece
    else this.#append(piece, length)
    this.#length = length
  }

  bytes(): Buffer {
    return this.#piece ?? Buffer.from(this.#place.buffer, 0, this.#length)
  }

  /** Gives the memory back, at once. */
  free(): void {
    this.#piece = undefined
    freeBytes(this.#place)
  }

  #append(piece: Buffer, needed: number): void {
    const first = this.#piece
    this.#piece = undefined
    if (needed > this.#place.length) {
      const wanted = Math.max(needed, Math.min(2 * needed, this.#announced || Infinity))
      // The old place is freed with this, and does not wait for a collection.
      this.#place = new Uint8Array(this.#place.buffer.transfer(wanted))
    }
    if (first) this.#place.set(first)
    this.#place.set(piece, this.#length)
    if (first) freeBytes(first)
    freeBytes(piece)
  }
}

/**
 * Gives back at once the memory of bytes which nobody has a use for any more, and that would wait for a collection else; they are
 * empty from then on. Nothing happens to few bytes, which may share their place with others.
 */
export function freeBytes({ buffer, length }: Uint8Array): void {
  if (!(buffer instanceof ArrayBuffer)) return
  const isOwn = buffer.byteLength === length && length > ownBytes
  if (isOwn || buffer.byteLength > smallBytes) buffer.transfer(0)
}
