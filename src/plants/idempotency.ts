import { createHash, type Hash } from 'node:crypto'
import { ApiError } from '../errors.ts'
import type { Steps } from '../work.ts'
import type { Idempotency } from './plant.ts'

/** Pieces of JSON that one step adds to a digest. */
const piecesPerStep = 500
/** Units of work for each piece of JSON, besides its characters. */
const unitsOfPiece = 30

/**
 * Reads the `Idempotency-Key` header (draft-ietf-httpapi-idempotency-key-header-07) of a request.
 * @param body the JSON value of the request: equal values have equal digests, even if their JSON texts differ
 * @throws ApiError 400 for a key that is blank, too long or not of printable ASCII
 */
export function* readIdempotency(header: string | string[], body: unknown): Steps<Idempotency> {
  if (typeof header !== 'string' || !/^[\x20-\x7e]{1,255}$/.test(header) || header.trim() === '') {
    throw new ApiError(
      400,
      'invalid_idempotency_key',
      'Send one Idempotency-Key header, with 1 to 255 printable ASCII characters.',
    )
  }
  return { key: header, request: yield* canonicalDigest(body) }
}

/** SHA-256 of a JSON text of a value with sorted properties. */
function* canonicalDigest(value: unknown): Steps<string> {
  const digest = createHash('sha256')
  const pieces: string[] = []
  yield* addCanonical(value, pieces, digest)
  yield addPieces(pieces, digest)
  return digest.digest('hex')
}

/** Adds a JSON text of a value to a digest. @param pieces the pieces of the text that are not added yet */
function* addCanonical(value: unknown, pieces: string[], digest: Hash): Steps<void> {
  if (typeof value !== 'object' || value === null) {
    pieces.push(JSON.stringify(value))
    return
  }
  const isList = Array.isArray(value)
  const names = isList ? value.keys() : Object.keys(value).sort()
  pieces.push(isList ? '[' : '{')
  let separator = ''
  for (const name of names) {
    pieces.push(separator, isList ? '' : `${JSON.stringify(name)}:`)
    yield* addCanonical(Object.getOwnPropertyDescriptor(value, name)?.value, pieces, digest)
    separator = ','
    if (pieces.length > piecesPerStep) yield addPieces(pieces, digest)
  }
  pieces.push(isList ? ']' : '}')
}

/** Adds the pieces of a text to a digest, and removes them from their list. @returns the units of work */
function addPieces(pieces: string[], digest: Hash): number {
  const text = pieces.splice(0)
  const joined = text.join('')
  digest.update(joined)
  return text.length * unitsOfPiece + (joined.length >> 2)
}

/** Idempotency keys of in-flight requests. */
export class InFlightKeys {
  readonly #running = new Set<string>()

  /**
   * Runs the work of a request with this key.
   * @throws ApiError 409 while another request with the key is in flight
   */
  run<T>(account: number, { key }: Idempotency, work: () => Promise<T>): Promise<T> {
    const running = `${account} ${key}`
    if (this.#running.has(running)) {
      throw new ApiError(
        409,
        'still_running',
        'The first request with this Idempotency-Key is still running. Wait for it.',
      )
    }
    this.#running.add(running)
    return work().finally(() => this.#running.delete(running))
  }
}
