import { hash } from 'node:crypto'
import { ApiError } from '../errors.ts'
import type { Idempotency } from './plant.ts'

/**
 * Reads the `Idempotency-Key` header (draft-ietf-httpapi-idempotency-key-header-07) of a request.
 * @param body the JSON value of the request: equal values have equal digests, even if their JSON texts differ
 * @throws ApiError 400 for a key that is blank, too long or not of printable ASCII, and for two keys
 */
export function readIdempotency(header: string | string[], body: unknown): Idempotency {
  if (typeof header !== 'string' || !/^[\x20-\x7e]{1,255}$/.test(header) || header.trim() === '') {
    throw new ApiError(
      400,
      'invalid_idempotency_key',
      'Send one Idempotency-Key header, with 1 to 255 printable ASCII characters.',
    )
  }
  return { key: header, request: hash('sha256', canonicalPieces(body).join('')) }
}

/**
 * The pieces of a JSON text of the value, with sorted properties. The caller joins all pieces once. If each level of a deep value
 * joined its pieces, the text would be copied a hundred times.
 */
function canonicalPieces(value: unknown, pieces: string[] = []): readonly string[] {
  if (typeof value !== 'object' || value === null) {
    pieces.push(JSON.stringify(value))
    return pieces
  }
  const isList = Array.isArray(value)
  const entries = isList ? value.entries() : Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  pieces.push(isList ? '[' : '{')
  let separator = ''
  for (const [name, item] of entries) {
    pieces.push(separator, isList ? '' : `${JSON.stringify(name)}:`)
    canonicalPieces(item, pieces)
    separator = ','
  }
  pieces.push(isList ? ']' : '}')
  return pieces
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
