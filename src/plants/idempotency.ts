import { digestOf } from '../bytes.ts'
import { ApiError } from '../errors.ts'
import { isFields, valueIn } from '../fields.ts'
import type { Idempotency } from './plant.ts'

/**
 * Reads the `Idempotency-Key` header of a request.
 * @param body the JSON value of the request: equal values have equal digests, even if their JSON texts differ
 * @throws ApiError 400 for an invalid key
 */
export function readIdempotency(header: string | string[], body: unknown): Idempotency {
  return { key: readKey(header), request: canonicalDigest(body) }
}

/**
 * Reads an `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header-07).
 * @throws ApiError 400 for a key that is blank, too long or not of printable ASCII
 */
export function readKey(header: string | string[]): string {
  if (typeof header !== 'string' || !/^[\x20-\x7e]{1,255}$/.test(header) || header.trim() === '') {
    throw new ApiError(
      400,
      'invalid_idempotency_key',
      'Send one Idempotency-Key header, with 1 to 255 printable ASCII characters.',
    )
  }
  return header
}

/** SHA-256 of the JSON of a value with sorted properties. */
export function canonicalDigest(value: unknown): string {
  return digestOf(Buffer.from(canonical(value)))
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (!isFields(value)) return JSON.stringify(value)
  const names = Object.keys(value).sort()
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(valueIn(value, name))}`).join()}}`
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
