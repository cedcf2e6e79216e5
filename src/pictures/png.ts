import { crc32 } from 'node:zlib'
import { damaged, PartCount, readOrientation, writeOrientation } from './parts.ts'

/* Sections are those of the PNG specification, third edition (https://www.w3.org/TR/png-3/). */

/** The first bytes of a PNG (section 5.2). */
export const pngSignature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
/** Section 5.3: a chunk's length is less than 2^31. */
const maxChunkBytes = 0x7fffffff
/** Bytes of a chunk's length, type and checksum. */
const chunkOverhead = 12
/** Bytes of a chunk's checksum. */
export const checksumBytes = 4

/** A chunk of a PNG. All bytes are views of the file's bytes. */
export interface PngChunk {
  readonly type: string
  readonly data: Buffer
  /** The positions of its first byte, and after its last byte, in the file. */
  readonly start: number
  readonly end: number
  /** Type and data, the bytes that the checksum covers (section 5.3). */
  readonly checked: Buffer
  readonly checksum: number
}

/** Chunks that are needed to show a picture (sections 5.6 and 11). */
const shownChunks: ReadonlySet<string> = new Set([
  ...['IHDR', 'PLTE', 'IDAT', 'tRNS', 'cHRM', 'gAMA', 'sRGB', 'iCCP', 'sBIT', 'cICP', 'mDCV', 'cLLI', 'bKGD', 'pHYs'],
  ...['acTL', 'fcTL', 'fdAT'],
])

/**
 * The parts of a PNG that show it: chunks of pixels, colours and animation; of EXIF only the orientation. Wrong checksums are
 * replaced.
 * @throws PictureError
 */
export function strippedPng(bytes: Buffer): readonly Buffer[] {
  const parts: Buffer[] = [pngSignature]
  let hasOrientation = false
  for (const { type, data, start, end, checked, checksum } of pngChunks(bytes)) {
    if (shownChunks.has(type)) {
      const right = crc32(checked)
      if (right === checksum) parts.push(bytes.subarray(start, end))
      else parts.push(bytes.subarray(start, end - checksumBytes), checksumOf(right))
    }
    const orientation = type === 'eXIf' && !hasOrientation ? readOrientation(data) : undefined
    if (orientation === undefined) continue
    hasOrientation = true
    parts.push(...pngChunk('eXIf', writeOrientation(orientation)))
  }
  return [...parts, ...pngChunk('IEND')]
}

/**
 * The chunks of a PNG up to IEND, or up to the end of a file without IEND. Pixels are never decoded.
 * @throws PictureError
 */
export function* pngChunks(bytes: Buffer): Generator<PngChunk> {
  const count = new PartCount()
  for (let offset = pngSignature.length; offset < bytes.length; ) {
    count.add()
    const length = offset + chunkOverhead <= bytes.length ? bytes.readUInt32BE(offset) : Number.POSITIVE_INFINITY
    const end = offset + chunkOverhead + length
    if (length > maxChunkBytes || end > bytes.length) throw damaged()
    const checked = bytes.subarray(offset + 4, end - checksumBytes)
    const type = checked.toString('latin1', 0, 4)
    const checksum = bytes.readUInt32BE(end - checksumBytes)
    yield { type, data: checked.subarray(4), start: offset, end, checked, checksum }
    if (type === 'IEND') return
    offset = end
  }
}

/** The parts of a chunk: its length and type, its data, its checksum. @param checksum the CRC-32 of type and data, if known */
export function pngChunk(
  type: string,
  data: Buffer = Buffer.alloc(0),
  checksum = crc32(data, crc32(type)),
): readonly Buffer[] {
  const head = Buffer.alloc(8)
  head.writeUInt32BE(data.length, 0)
  head.write(type, 4, 'latin1')
  return [head, data, checksumOf(checksum)]
}

/** The bytes of a checksum. */
export function checksumOf(checksum: number): Buffer {
  const bytes = Buffer.alloc(checksumBytes)
  bytes.writeUInt32BE(checksum, 0)
  return bytes
}
