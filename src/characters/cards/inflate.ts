import { inflateRawSync, inflateSync } from 'node:zlib'
import { CardError } from '../documents/card-error.ts'

/**
 * Unpacks deflated bytes (RFC 1951), with or without a zlib wrapper (RFC 1950). Bytes after the end of the stream are not read. The
 * service does this only in a worker, because 60 MB take 300 ms.
 * @param maxBytes the most bytes of the output
 * @throws CardError when the output is larger or the input is damaged
 */
export function inflate(packed: Uint8Array, wrapper: 'none' | 'zlib', maxBytes: number): Buffer {
  const unpack = wrapper === 'zlib' ? inflateSync : inflateRawSync
  try {
    // Node refuses a limit of 0.
    return unpack(packed, { maxOutputLength: Math.max(1, maxBytes) })
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE') {
      throw new CardError('card_too_large', `The packed card unpacks to more than ${maxBytes} bytes. Shorten it.`)
    }
    throw new CardError('card_damaged', 'The packed card cannot be unpacked: it is damaged. Send it again.', error)
  }
}
