import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../errors.ts'
import { smallBytes } from './bytes-in-flight.ts'

/** Milliseconds for which a client that still sends may read why it is refused, before its connection is closed. */
export const lingerMs = 1000

/** Bytes beyond which a piece of a body is worth giving back by itself. */
const minFreedBytes = 8192

/** Makes of a body what the request's body becomes; a promise of it, or an error, as well. */
type ParseBody = (request: FastifyRequest, body: Buffer) => unknown

/** Makes an instance take bodies of these types. */
export function takeBodies(app: FastifyInstance, types: string | string[], parse: ParseBody): void {
  app.addContentTypeParser(types, bodyReader(parse))
}

/**
 * Gives what reads a body and parses it, and has its bytes counted as they come, not as they are announced.
 * @throws ApiError 413 beyond the route's limit, 503 where so many bytes have no room; then the client may still send, and
 *   the connection is closed. Node's error where the client has left
 */
function bodyReader(parse: ParseBody) {
  return (request: FastifyRequest, payload: IncomingMessage): Promise<unknown> => {
    const limit = request.routeOptions.bodyLimit
    const announced = Number(request.headers['content-length'])
    if (announced > limit) {
      lingerBeforeClosing(payload.socket)
      return Promise.reject(tooLarge())
    }
    let length = 0
    // Most bodies come in one piece.
    let only: Buffer | undefined
    let all: GrowingBytes | undefined
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const fail = (error: unknown) => {
      payload.off('data', take)
      payload.off('end', end)
      payload.off('error', fail)
      all?.free()
      reject(error)
    }
    const take = (piece: Buffer) => {
      length += piece.length
      try {
        if (length > limit) throw tooLarge()
        if (length > smallBytes) request.held?.set(length)
        if (all) all.add(piece)
        else if (!only) only = piece
        else {
          all = new GrowingBytes(announced, only, piece)
          only = undefined
        }
      } catch (error) {
        lingerBeforeClosing(payload.socket)
        fail(error)
        payload.on('data', freeBytes)
      }
    }
    const end = () => {
      // What comes after the end is not the body's: its bytes are in use.
      payload.off('error', fail)
      const bytes = all?.bytes() ?? only ?? Buffer.alloc(0)
      try {
        resolve(parse(request, bytes))
      } catch (error) {
        freeBytes(bytes)
        reject(error)
      }
    }
    payload.on('data', take)
    payload.on('end', end)
    payload.on('error', fail)
    return promise
  }
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
    setTimeout(() => socket.destroy(), lingerMs).unref()
  }
}

/** Bytes of one of the blocks in which a large body waits to be whole. */
const blockBytes = 1024 ** 2

/**
 * Bytes that come in pieces. They are copied to blocks of a megabyte, and from a quarter of what is announced on to a block
 * for all of it: pieces of one byte cost one byte, what is announced and never comes costs nothing, and a large body is
 * there once, also while blocks are put together.
 */
class GrowingBytes {
  readonly #announced: number
  readonly #full: Buffer[] = []
  #block: Buffer = Buffer.alloc(0)
  /** Bytes in the last block. */
  #used = 0

  /** @param announced how many are said to come; NaN where nothing is said */
  constructor(announced: number, first: Buffer, second: Buffer) {
    this.#announced = announced
    this.#append(first, second.length)
    this.#append(second, 0)
  }

  add(piece: Buffer): void {
    this.#append(piece, 0)
  }

  bytes(): Buffer {
    const last = this.#block.subarray(0, this.#used)
    if (this.#full.length === 0) return last
    this.#full.push(last)
    return this.#join(sumOf(this.#full))
  }

  /** Gives the memory back, at once. */
  free(): void {
    for (const block of [...this.#full.splice(0), this.#block]) freeBytes(block)
  }

  /** @param more bytes that come next as well */
  #append(piece: Buffer, more: number): void {
    for (let start = 0; start < piece.length; ) {
      if (this.#used === this.#block.length) this.#addBlock(piece.length - start + more)
      const copied = piece.copy(this.#block, this.#used, start)
      this.#used += copied
      start += copied
    }
    freeBytes(piece)
  }

  /** Opens another block: the last one, where a quarter of what is announced has come. */
  #addBlock(needed: number): void {
    if (this.#used > 0) this.#full.push(this.#block)
    const come = sumOf(this.#full)
    if (come >= blockBytes && come >= this.#announced / 4) {
      this.#block = this.#join(this.#announced)
      this.#used = come
      return
    }
    const left = this.#announced - come || 2 * come
    this.#block = Buffer.allocUnsafeSlow(Math.min(blockBytes, Math.max(needed, left)))
    this.#used = 0
  }

  /** Puts the full blocks together. Memory is taken as it is written to, while that of the blocks goes. */
  #join(length: number): Buffer {
    const whole = Buffer.allocUnsafeSlow(length)
    let end = 0
    for (const block of this.#full.splice(0)) {
      end += block.copy(whole, end)
      freeBytes(block)
    }
    return whole
  }
}

function sumOf(blocks: readonly Buffer[]): number {
  return blocks.reduce((sum, { length }) => sum + length, 0)
}

/**
 * Gives back at once the memory of bytes which nobody has a use for any more, and that would wait for a collection else; they are
 * empty from then on. Nothing happens to few bytes, which may share their block with others.
 */
export function freeBytes({ buffer, length }: Uint8Array): void {
  if (!(buffer instanceof ArrayBuffer)) return
  const isOwn = buffer.byteLength === length && length > minFreedBytes
  if (isOwn || buffer.byteLength > smallBytes) buffer.transfer(0)
}
