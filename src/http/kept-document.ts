import { hash } from 'node:crypto'
import { finished, Readable, type Writable } from 'node:stream'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { overloaded } from '../errors.ts'
import { namesTag } from './etag.ts'
import { piecesOf } from './pieces.ts'

/** Seconds for which a browser need not ask again: a document changes with a new version of the service alone. */
const freshFor = 300
/** Bytes that are written in one turn of the event loop. */
const slice = 16 * 1024

/** How long a document may be kept by those that have read it, and which request headers it depends on. */
export interface DocumentHeaders {
  readonly cacheControl?: string
  readonly vary?: string
}

/** A document that is the same for everybody: kept once, as it is and compressed, and sent from there. */
export class KeptDocument {
  readonly #type: string
  readonly #plain: Buffer
  readonly #compressed: Buffer
  readonly #headers: Readonly<Record<string, string>>
  readonly #digest: string

  private constructor(type: string, plain: Buffer, compressed: Buffer, headers: DocumentHeaders) {
    const { cacheControl = `public, max-age=${freshFor}`, vary = 'accept-encoding' } = headers
    this.#type = type
    this.#plain = plain
    this.#compressed = compressed
    this.#headers = { 'cache-control': cacheControl, vary }
    this.#digest = hash('sha256', plain, 'base64url').slice(0, 27)
  }

  /** Compresses it, in a thread of its own. @param type its media type */
  static async from(type: string, bytes: Buffer, headers: DocumentHeaders = {}): Promise<KeptDocument> {
    return new KeptDocument(type, bytes, await promisify(gzip)(bytes, { level: 9 }), headers)
  }

  /**
   * Sends it, or a 304 to a client that has it.
   * @throws ApiError 503 where so many are being read already
   */
  send(request: FastifyRequest, reply: FastifyReply, readers: Readers): FastifyReply {
    const isCompressed = takesGzip(request.headers['accept-encoding'])
    const tag = `${this.#digest}${isCompressed ? '-gzip' : ''}`
    reply.headers({ etag: `"${tag}"`, ...this.#headers })
    if (namesTag(request.headers['if-none-match'], tag)) return reply.code(304).send()
    const bytes = isCompressed ? this.#compressed : this.#plain
    readers.enter(reply.raw)
    reply.headers({ 'content-type': this.#type, 'content-length': bytes.length })
    if (isCompressed) reply.header('content-encoding', 'gzip')
    return reply.send(bytes.length <= slice ? bytes : Readable.from(piecesOf(bytes, slice)))
  }
}

/** Made once: with its stack, making one costs as much as the rest of a refusal. */
const tooMany = overloaded('Too many are reading the documents now. Try again in a second.', {
  'cache-control': 'no-store',
})

/** Counts the replies with a document that are still being read: nobody needs a key for one. */
export class Readers {
  readonly #most: number
  #count = 0

  constructor(most: number) {
    this.#most = most
  }

  /**
   * Lets a reply begin; its place is free when it is over.
   * @throws ApiError 503 where there is none
   */
  enter(reply: Writable): void {
    if (this.#count >= this.#most) throw tooMany
    this.#count++
    finished(reply, () => this.#count--)
  }
}

/** Whether a client takes gzip (RFC 9110, section 12.5.3). */
function takesGzip(accepted: string | readonly string[] = ''): boolean {
  const weights = new Map(
    String(accepted)
      .toLowerCase()
      .split(',')
      .map((coding): [string, number] => {
        const [name = '', ...parameters] = coding.split(';').map((part) => part.trim())
        const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
        return [name, weight === undefined ? 1 : Number(weight)]
      }),
  )
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0
}

/** Makes something when it is first asked for, and again only if that failed. */
export function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined
      throw error
    })
    return made
  }
}
