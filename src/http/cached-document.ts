import { hash } from 'node:crypto'
import { finished, Readable, type Writable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { overloaded } from '../errors.ts'
import { networkOf } from '../networks.ts'
import { matchesTag } from './etag.ts'

/** How long a browser may use a cached document without a request. Documents change only with a new version of the service. */
const maxAgeSeconds = 300
/** Bytes that are written in one turn of the event loop. */
const pieceBytes = 16 * 1024

/** How a document is sent. */
export interface DocumentOptions {
  /** The `Cache-Control` header. */
  readonly cacheControl?: string
  /** The `Vary` header. */
  readonly vary?: string
  /** Whether to compress the document with Brotli too. The result is a tenth smaller than with gzip, but takes longer to make. */
  readonly hasBrotli?: boolean
}

/** A document in a content coding (RFC 9110, section 8.4.1). */
interface Coded {
  readonly coding: 'gzip' | 'br'
  readonly bytes: Buffer
}

/** Brotli's quality. The highest quality (11) would take three times as long, and save only a fiftieth. */
const brotliQuality = 10

/** A document that is the same for all clients, in memory once plain and once in each content coding. */
export class CachedDocument {
  readonly #type: string
  readonly #plain: Buffer
  /** The smallest first. */
  readonly #compressed: readonly Coded[]
  readonly #cacheControl: string
  readonly #vary: string
  readonly #digest: string

  private constructor(type: string, plain: Buffer, compressed: readonly Coded[], options: DocumentOptions) {
    const { cacheControl = `public, max-age=${maxAgeSeconds}`, vary = 'accept-encoding' } = options
    this.#type = type
    this.#plain = plain
    this.#compressed = compressed
    this.#cacheControl = cacheControl
    this.#vary = vary
    this.#digest = hash('sha256', plain, 'base64url').slice(0, 27)
  }

  /** Makes a document. Threads of Node's pool compress the bytes. @param type the media type of the document */
  static async from(type: string, bytes: Buffer, options: DocumentOptions = {}): Promise<CachedDocument> {
    const gzipped: Coded = { coding: 'gzip', bytes: await promisify(gzip)(bytes, { level: 9 }) }
    if (!options.hasBrotli) return new CachedDocument(type, bytes, [gzipped], options)
    const params = { [constants.BROTLI_PARAM_QUALITY]: brotliQuality }
    const smallest: Coded = { coding: 'br', bytes: await promisify(brotliCompress)(bytes, { params }) }
    return new CachedDocument(type, bytes, [smallest, gzipped], options)
  }

  /**
   * Sends the document, or a 304 to a client that already has the document.
   * @throws ApiError 503 when the client's address has too many open replies
   */
  send(request: FastifyRequest, reply: FastifyReply, readers: ReaderLimit): FastifyReply {
    const takes = codingsOf(request.headers['accept-encoding'])
    const coded = this.#compressed.find(({ coding }) => takes(coding))
    const bytes = coded?.bytes ?? this.#plain
    const tag = coded ? `${this.#digest}-${coded.coding}` : this.#digest
    reply.headers({ etag: `"${tag}"`, 'cache-control': this.#cacheControl })
    addVary(reply, this.#vary)
    if (matchesTag(request.headers['if-none-match'], tag)) return reply.code(304).send()
    readers.enter(reply.raw, networkOf(request.from))
    reply.headers({ 'content-type': this.#type, 'content-length': bytes.length })
    if (coded) reply.header('content-encoding', coded.coding)
    return reply.send(bytes.length <= pieceBytes ? bytes : Readable.from(piecesOf(bytes, pieceBytes)))
  }
}

/** Adds names to the `Vary` header, to which the CORS plugin may have added `Origin` before. */
export function addVary(reply: FastifyReply, names: string): void {
  const before = reply.getHeader('vary')
  reply.header('vary', before === undefined ? names : `${String(before)}, ${names}`)
}

/** All refusals share this error, because making an error with its stack costs as much as the rest of a refusal. */
const tooMany = overloaded('Too many clients are reading documents now. Try again in a second.', {
  'cache-control': 'no-store',
})

/** The most open replies of one `ReaderLimit`. */
const maxReaders = 1024
/** An address may have this part of the free places. A browser requests six files in parallel, and a school may share an address. */
const freePart = 1 / 3

/**
 * Bounds the replies that are open at the same time on routes without a key. An address may have a third as many open replies as
 * there are free places. So one slow address gets a quarter of the places, and more than 20 slow addresses are needed to take all.
 */
export class ReaderLimit {
  readonly #max: number
  #count = 0
  readonly #counts = new Map<string, number>()

  constructor(max = maxReaders) {
    this.#max = max
  }

  /**
   * Counts a reply as open until the reply is over.
   * @param from the client's address or network
   * @throws ApiError 503 when the address has too many open replies
   */
  enter(reply: Writable, from: string): void {
    const own = this.#counts.get(from) ?? 0
    if (own >= (this.#max - this.#count) * freePart) throw tooMany
    this.#count++
    this.#counts.set(from, own + 1)
    finished(reply, () => this.#leave(from))
  }

  #leave(from: string): void {
    this.#count--
    const left = (this.#counts.get(from) ?? 1) - 1
    if (left === 0) this.#counts.delete(from)
    else this.#counts.set(from, left)
  }
}

/** Makes a function that tells whether a client accepts a content coding (RFC 9110, section 12.5.3). */
function codingsOf(accepted: string | readonly string[] = ''): (coding: Coded['coding']) => boolean {
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
  return (coding) => (weights.get(coding) ?? weights.get('*') ?? 0) > 0
}

/** Caches the result of a function from the first call on. After a failure, the next call runs the function again. */
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

/** Splits bytes into pieces without a copy. Each turn of the event loop gets one piece, so that many readers block no request. */
async function* piecesOf(bytes: Buffer, pieceBytes: number): AsyncIterable<Buffer> {
  for (let start = 0; start < bytes.length; start += pieceBytes) {
    yield bytes.subarray(start, start + pieceBytes)
    await setImmediate()
  }
}
