import { Z_BUF_ERROR, Z_NO_FLUSH, Z_OK, Z_STREAM_END, ZStream, zlibInflate, zlibInflateInit2 } from 'pako'
import { freeBytes } from '../../bytes.ts'
import type { Steps } from '../../work.ts'
import { CardError } from '../documents/card-error.ts'

/** The fewest bytes of the output buffer, unless the limit is smaller. */
const minBufferBytes = 64 * 1024
/** The most bytes that one step reads, and the most that it writes. */
const inputBytesOfStep = 4 * 1024
const outputBytesOfStep = 64 * 1024
/** Units of work for each byte by which a step's input exceeds its output. Such input may be Huffman tables, which are slow. */
const unitsOfBareByte = 12

/** Called with the size in bytes of each buffer for unpacked content, before the buffer is allocated. */
export type OnMemory = (bytes: number) => void

/**
 * Unpacks deflated bytes (RFC 1951), with or without a zlib wrapper (RFC 1950), in steps. With Node's zlib, one step could
 * unpack megabytes of empty blocks, which takes 40 ms for each megabyte.
 * @param maxBytes the most bytes of the output
 * @throws CardError when the output is larger or the input is damaged, and errors of `onMemory`
 */
export function* inflate(
  packed: Buffer,
  wrapper: 'none' | 'zlib',
  maxBytes: number,
  onMemory?: OnMemory,
): Steps<Buffer> {
  const bufferOf = (bytes: number) => {
    const size = Math.min(bytes, maxBytes + 1)
    onMemory?.(size)
    return new Uint8Array(size)
  }
  const stream = new ZStream()
  zlibInflateInit2(stream, wrapper === 'zlib' ? 15 : -15)
  stream.input = packed
  // A card is about five times as large as its packed bytes, so most cards fit into the first buffer, and no buffer is copied.
  stream.output = bufferOf(Math.max(minBufferBytes, 8 * packed.length))
  let isWhole = false
  try {
    yield* unpack(stream, packed, maxBytes, bufferOf)
    isWhole = true
    return Buffer.from(stream.output.buffer, 0, stream.next_out)
  } finally {
    if (!isWhole) freeBytes(stream.output)
  }
}

/** Unpacks bytes to the output of a stream. A buffer that is too small is replaced and freed. */
function* unpack(
  stream: ZStream,
  packed: Buffer,
  maxBytes: number,
  bufferOf: (bytes: number) => Uint8Array<ArrayBuffer>,
): Steps<void> {
  for (;;) {
    const { next_in: read, next_out: written } = stream
    stream.avail_in = Math.min(inputBytesOfStep, packed.length - read)
    stream.avail_out = Math.min(outputBytesOfStep, stream.output.length - written)
    const status = zlibInflate(stream, Z_NO_FLUSH)
    const input = stream.next_in - read
    const output = stream.next_out - written
    yield (output >> 1) + unitsOfBareByte * Math.max(0, input - output)
    if (stream.next_out > maxBytes) {
      throw new CardError('card_too_large', `The packed card unpacks to more than ${maxBytes} bytes. Shorten it.`)
    }
    if (status === Z_STREAM_END) return
    if (stream.next_out === stream.output.length) {
      const larger = bufferOf(2 * stream.output.length)
      larger.set(stream.output)
      freeBytes(stream.output)
      stream.output = larger
    } else if ((status !== Z_OK && status !== Z_BUF_ERROR) || input + output === 0) {
      throw new CardError('card_damaged', 'The packed card cannot be unpacked: it is damaged. Send it again.')
    }
  }
}
