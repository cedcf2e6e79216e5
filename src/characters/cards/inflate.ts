import { inflateRawSync, inflateSync } from 'node:zlib'
import { codeOf } from '../../errors.ts'
import { CardError } from '../documents/card-error.ts'

/** The fewest bytes of the output buffer, unless the limit is smaller. */
const minBufferBytes = 64 * 1024

/**
 * Unpacks deflated bytes (RFC 1951), with or without a zlib wrapper (RFC 1950).
 * @param maxBytes limit of the output; unpacking stops there, whatever size a header declares
 * @throws CardError when the output is larger or the input is damaged
 */
export function inflate(packed: Buffer, wrapper: 'none' | 'zlib', maxBytes: number): Buffer {
  // An output that fits into one buffer is not copied again. The packed bytes of a card are about a fifth of its bytes.
  const chunkSize = Math.min(maxBytes, Math.max(minBufferBytes, 8 * packed.length))
  try {
    return (wrapper === 'zlib' ? inflateSync : inflateRawSync)(packed, { maxOutputLength: maxBytes, chunkSize })
  } catch (cause) {
    if (codeOf(cause) === 'ERR_BUFFER_TOO_LARGE') {
      throw new CardError(
        'card_too_large',
        `The packed card unpacks to more than ${maxBytes} bytes. Shorten it.`,
        cause,
      )
    }
    throw new CardError('card_damaged', 'The packed card cannot be unpacked: it is damaged. Send it again.', cause)
  }
}
