import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type ApiError, overloaded } from '../errors.ts'

/** A body or a reply of up to this size is not counted and never refused. Most are smaller, and cost only one comparison. */
export const smallBytes = 64 * 1024

/** All refusals share this error, because making an error with its stack costs as much as the rest of a refusal. */
const refusal = overloaded('The bodies of requests and replies have no room now. Try again in a second.')

/**
 * Counts the bytes that requests hold in memory: a body from its first byte to the end of the reply, and a reply until the client
 * has read it. All bytes together never exceed the bound, and the bytes of one account never exceed half of the bound. The last
 * quarter of the bound is only for a request whose account held nothing before.
 */
export class BytesInFlight {
  readonly #maxBytes: number
  readonly #accounts = new Map<number, number>()
  #bytes = 0
  #refusals = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Bytes that are held now. */
  get bytes(): number {
    return this.#bytes
  }

  /** How often bytes were refused. */
  get refusals(): number {
    return this.#refusals
  }

  /** Opens a count for the bytes of one request. @returns the count, 0 at first, to be released when the request is over */
  open(account: number): HeldBytes {
    let isFirst = false
    const holds = () => this.#accounts.get(account) ?? 0
    const share = Math.floor(this.#maxBytes / 2)
    const change = (before: number, after: number) => {
      const more = after - before
      if (more > 0) {
        if (before === 0) isFirst = holds() === 0
        const bound = isFirst ? this.#maxBytes : Math.floor(this.#maxBytes * 0.75)
        if (this.#bytes + more > bound || holds() + more > share) return false
      }
      this.#bytes += more
      const left = holds() + more
      if (left > 0) this.#accounts.set(account, left)
      else this.#accounts.delete(account)
      return true
    }
    return new HeldBytes({ change, refuse: this.#refuse })
  }

  readonly #refuse = (): ApiError => {
    this.#refusals++
    return refusal
  }

  /**
   * Counts the bytes of an account's card while the card is read.
   * @throws ApiError 503 when too many bytes are in flight
   */
  readonly during = async <T>(account: number, bytes: number, read: () => Promise<T>): Promise<T> => {
    const held = this.open(account)
    held.set(bytes)
    try {
      return await read()
    } finally {
      held.release()
    }
  }
}

/** The counts of the process and of an account, as one request sees them. */
interface Counts {
  /** Replaces the number `before` by `after`. @returns false, with nothing changed, if that is too much */
  readonly change: (before: number, after: number) => boolean
  /** Counts a refusal. @returns its error */
  readonly refuse: () => ApiError
}

/** The bytes that one request holds, and the number of their users: the reply, and work that goes on without the client. */
export class HeldBytes {
  readonly #counts: Counts
  #bytes = 0
  #users = 1

  constructor(counts: Counts) {
    this.#counts = counts
  }

  /**
   * Sets the bytes that the request holds in total. Numbers up to `smallBytes` count as 0. After the last release, all
   * numbers count as 0.
   * @throws ApiError 503, with the number unchanged, when too many bytes are in flight
   */
  set(bytes: number): void {
    const counted = this.#users === 0 || bytes <= smallBytes ? 0 : bytes
    if (counted === this.#bytes) return
    if (!this.#counts.change(this.#bytes, counted)) throw this.#counts.refuse()
    this.#bytes = counted
  }

  /** Holds the bytes until the work is over. @returns the result of the work */
  async during<T>(work: Promise<T>): Promise<T> {
    this.#users++
    try {
      return await work
    } finally {
      this.release()
    }
  }

  /** Ends one use of the bytes. The reply is one use. After the last use no bytes are held. */
  release(): void {
    this.#users--
    if (this.#users === 0) this.set(0)
  }
}

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
