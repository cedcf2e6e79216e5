import { inflateRawSync, inflateSync } from 'node:zlib'
import { codeOf } from '../../errors.ts'
import { CardError } from '../documents/card-error.ts'

/** Bytes of the least place for what is unpacked. */
const minBufferBytes = 64 * 1024

/**
 * Unpacks deflated bytes (RFC 1951), or those in a zlib wrapper (RFC 1950).
 * The limit is on what comes out, whatever any header declares: unpacking stops there.
 * @throws CardError
 */
export function inflate(packed: Buffer, wrapper: 'none' | 'zlib', largest: number): Buffer {
  // What has room in one place is not copied together; a card is packed to a fifth.
  const chunkSize = Math.min(largest, Math.max(minBufferBytes, 8 * packed.length))
  try {
    return (wrapper === 'zlib' ? inflateSync : inflateRawSync)(packed, { maxOutputLength: largest, chunkSize })
  } catch (cause) {
    if (codeOf(cause) === 'ERR_BUFFER_TOO_LARGE') {
      throw new CardError('card_too_large', `The packed card unpacks to more than ${largest} bytes. Shorten it.`, cause)
    }
    throw new CardError('card_damaged', 'The packed card cannot be unpacked: it is damaged. Send it again.', cause)
  }
}
