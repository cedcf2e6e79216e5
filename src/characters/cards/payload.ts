import { inflateRawSync, inflateSync } from 'node:zlib'
import { spend } from '../../work/fuel.ts'
import { CardError } from '../documents/card-error.ts'

/** The most characters of the text of a PNG chunk, as base64 or as JSON. */
const maxBase64Length = 24 * 1024 * 1024
/** Bytes of base64 that become a text at once. */
const maxPieceBytes = 256 * 1024

/**
 * The bytes in the text of a PNG chunk: plain JSON, or base64 of the standard or the URL alphabet, with or without padding.
 * @throws CardError if the text is too long, encrypted by RisuAI, or not base64
 */
export function decodePayload(payload: Buffer): Buffer {
  if (payload.length > maxBase64Length) {
    throw new CardError(
      'card_too_large',
      `The picture's card is longer than ${maxBase64Length} characters. Shorten it.`,
    )
  }
  const start = payload
    .toString('latin1', 0, 64)
    .replace(/^\xef\xbb\xbf/, '')
    .trimStart()
  if (start.startsWith('{')) return payload
  if (start.startsWith('rcc||')) {
    throw new CardError(
      'card_unsupported',
      'RisuAI encrypted this card, and only RisuAI can read it. Export it without encryption.',
    )
  }
  const padding = payload.indexOf('=')
  const digitsEnd = padding === -1 ? payload.length : padding
  // The search for one wrong character takes linear time. A pattern for the whole text could backtrack or exhaust the stack.
  const isBase64 =
    !hasMatch(payload.subarray(0, digitsEnd), /[^\w+/\-\s]/) && !hasMatch(payload.subarray(digitsEnd), /[^=\s]/)
  if (!isBase64 || start === '') {
    throw new CardError(
      'card_damaged',
      "The picture's card is not valid base64: it is damaged. Send the original file.",
    )
  }
  return Buffer.from(payload.toString('latin1', 0, digitsEnd), 'base64')
}

/** Whether a character of a Latin-1 text matches. */
function hasMatch(bytes: Buffer, pattern: RegExp): boolean {
  for (let start = 0; start < bytes.length; start += maxPieceBytes) {
    const text = bytes.toString('latin1', start, start + maxPieceBytes)
    if (pattern.test(text)) return true
    spend(text.length >> 3)
  }
  return false
}

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
