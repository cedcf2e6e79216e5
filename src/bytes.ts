import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { endOfPiece } from './text.ts'
import type { Steps } from './work.ts'

/** Buffers of up to this size are left to garbage collection, because they take little memory. */
const minFreedBytes = 8192

/** An `ArrayBuffer` of up to this size may be Node's pool (`Buffer.poolSize`), which many buffers share. */
const maxPoolBytes = 64 * 1024

/** The bytes of one step. Copying or reading them takes about 0.3 ms, and hashing them about 1 ms. */
const bytesOfStep = 1024 ** 2

/** Units of work for each piece, besides its bytes. */
const unitsOfPiece = 50

/** Units of work to copy or read bytes. */
const unitsOf = (bytes: Buffer) => unitsOfPiece + (bytes.length >> 5)

/** Splits bytes into one piece for each step, without a copy. Empty bytes are one piece, so that they cost a step too. */
function* piecesOf(bytes: Buffer): Generator<Buffer> {
  if (bytes.length <= bytesOfStep) return yield bytes
  for (let start = 0; start < bytes.length; start += bytesOfStep) yield bytes.subarray(start, start + bytesOfStep)
}

/** The number of bytes in these pieces. */
export function lengthOf(pieces: readonly Buffer[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0)
}

/**
 * Frees the memory of unused bytes at once instead of at the next garbage collection. Then the array is empty. An array that is
 * only a part of an `ArrayBuffer` of at most 64 KiB is not freed, because other arrays may share this `ArrayBuffer` (Node's pool,
 * `Buffer.poolSize`). A larger `ArrayBuffer` is always freed as a whole.
 */
export function freeBytes({ buffer, length }: Uint8Array): void {
  if (!(buffer instanceof ArrayBuffer)) return
  const isOwn = buffer.byteLength === length && length > minFreedBytes
  if (isOwn || buffer.byteLength > maxPoolBytes) buffer.transfer(0)
}

/** Frees bytes that are no view of `file`, as `freeBytes` does. */
export function freeUnlessView(bytes: Buffer, file: Buffer): void {
  if (bytes.buffer !== file.buffer) freeBytes(bytes)
}

/**
 * Allocates bytes and fills them in steps. If the steps cannot go on, the memory is freed at once.
 * @param size the most bytes
 * @param fill writes into the bytes, and returns how many it has written
 */
function* filledBytes(size: number, fill: (bytes: Buffer) => Steps<number>): Steps<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(size)
  let length: number | undefined
  try {
    length = yield* fill(bytes)
    return bytes.subarray(0, length)
  } finally {
    if (length === undefined) freeBytes(bytes)
  }
}

/** Joins bytes in steps: in one step, 60 MB would take 50 ms. */
export function* joinBytes(parts: readonly Buffer[]): Steps<Buffer> {
  let length = 0
  for (const part of parts) {
    length += part.length
    yield unitsOfPiece >> 2
  }
  return yield* filledBytes(length, function* (whole) {
    let end = 0
    for (const part of parts) {
      for (const piece of piecesOf(part)) {
        end += piece.copy(whole, end)
        yield unitsOf(piece)
      }
    }
    return end
  })
}

/** The CRC-32 of bytes (as in PNG and zip), in steps. @param before the checksum of the preceding bytes */
export function* crc32Steps(bytes: Buffer, before = 0): Steps<number> {
  let checksum = before
  for (const piece of piecesOf(bytes)) {
    checksum = crc32(piece, checksum)
    yield unitsOf(piece)
  }
  return checksum
}

/** SHA-256 of bytes in steps, 64 hex digits. */
export function* digestSteps(bytes: Buffer): Steps<string> {
  const digest = createHash('sha256')
  for (const piece of piecesOf(bytes)) {
    digest.update(piece)
    yield unitsOfPiece + (piece.length >> 4)
  }
  return digest.digest('hex')
}

/** Characters of a text that one step encodes. */
const charactersOfStep = 64 * 1024

/** The UTF-8 bytes of a text, in steps: in one step, 10 MB would take 50 ms. */
export function* utf8Bytes(text: string): Steps<Buffer> {
  if (text.length <= charactersOfStep) return Buffer.from(text)
  let length = 0
  for (const piece of textPieces(text)) {
    length += Buffer.byteLength(piece)
    yield unitsOfPiece + (piece.length >> 5)
  }
  return yield* filledBytes(length, function* (bytes) {
    let end = 0
    for (const piece of textPieces(text)) {
      end += bytes.write(piece, end)
      yield unitsOfPiece + (piece.length >> 3)
    }
    return end
  })
}

/** Splits a text into one piece for each step. */
function* textPieces(text: string): Generator<string> {
  for (let start = 0, end = 0; start < text.length; start = end) {
    end = endOfPiece(text, start, charactersOfStep)
    yield text.slice(start, end)
  }
}

/** Digits of base64 that one step decodes. */
const digitsOfStep = 256 * 1024

/**
 * Decodes base64 in pieces of whole groups of four characters, because one text of all characters would double the memory. Node's
 * decoder reads both alphabets.
 * @param digitsAt the characters of base64 from one position to another, which may be after the last one
 */
export function* decodeBase64(count: number, digitsAt: (start: number, end: number) => string): Steps<Buffer> {
  return yield* filledBytes(Math.ceil((count * 3) / 4), function* (decoded) {
    let length = 0
    let rest = ''
    for (let start = 0; start < count; start += digitsOfStep) {
      const text = rest + digitsAt(start, start + digitsOfStep).replace(/\s+/g, '')
      const whole = text.length - (text.length % 4)
      length += decoded.write(text.slice(0, whole), length, 'base64')
      rest = text.slice(whole)
      yield text.length >> 3
    }
    return length + decoded.write(rest, length, 'base64')
  })
}
