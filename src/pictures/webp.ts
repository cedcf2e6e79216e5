import { lengthOf } from '../bytes.ts'
import { damaged, PartCount, readOrientation, writeOrientation } from './parts.ts'

/* Names are those of the WebP container specification (RFC 9649, section 2). */

const riffHeaderBytes = 12
const chunkHeaderBytes = 8
const extendedBytes = 10
/** The bytes of an animation's frame before its chunks. */
const frameBytes = 16
/** The flags of an extended file: a colour profile, alpha, EXIF, and an animation. */
const [profileFlag, alphaFlag, exifFlag, animationFlag] = [0x20, 0x10, 0x08, 0x02]

const shownChunks = new Set(['VP8 ', 'VP8L', 'ALPH', 'ANIM', 'ICCP'])
const shownInFrame = new Set(['VP8 ', 'VP8L', 'ALPH'])

interface Chunk {
  readonly type: string
  /** A view. */
  readonly data: Buffer
}

/**
 * The parts of a WebP that show it: frames, alpha, and the colour profile; of EXIF only the orientation.
 * @throws PictureError
 */
export function strippedWebp(bytes: Buffer): readonly Buffer[] {
  const count = new PartCount()
  const file = bytes.subarray(riffHeaderBytes, chunkHeaderBytes + bytes.readUInt32LE(4))
  if (bytes.readUInt32LE(4) > bytes.length - chunkHeaderBytes) throw damaged()
  const [first, ...others] = chunksOf(file, count)
  if (first === undefined) throw damaged()
  // A file that does not begin with VP8X is one image, and has nothing else.
  const parts = first.type === 'VP8X' ? extended(first.data, others, count) : partsOf(first.type, first.data)
  return [riffHeader(lengthOf(parts)), ...parts]
}

function riffHeader(length: number): Buffer {
  const header = Buffer.from('RIFF\0\0\0\0WEBP', 'latin1')
  header.writeUInt32LE(length + 4, 4)
  return header
}

function extended(data: Buffer, chunks: readonly Chunk[], count: PartCount): readonly Buffer[] {
  if (data.length < extendedBytes) throw damaged()
  const exif = chunks.find(({ type }) => type === 'EXIF')?.data
  const orientation = exif && readOrientation(exif.subarray(exif.toString('latin1', 0, 6) === 'Exif\0\0' ? 6 : 0))
  const header = Buffer.from(data.subarray(0, extendedBytes)).fill(0, 1, 4)
  header[0] = ((data[0] ?? 0) & (profileFlag | alphaFlag | animationFlag)) | (orientation === undefined ? 0 : exifFlag)
  const shown = chunks.flatMap((chunk) => {
    if (shownChunks.has(chunk.type)) return partsOf(chunk.type, chunk.data)
    return chunk.type === 'ANMF' ? strippedFrame(chunk.data, count) : []
  })
  const turned = orientation === undefined ? [] : partsOf('EXIF', writeOrientation(orientation))
  return [...partsOf('VP8X', header), ...shown, ...turned]
}

/** A frame of an animation without its unknown chunks. */
function strippedFrame(data: Buffer, count: PartCount): readonly Buffer[] {
  if (data.length < frameBytes) throw damaged()
  const shown = chunksOf(data.subarray(frameBytes), count).filter(({ type }) => shownInFrame.has(type))
  const parts = [data.subarray(0, frameBytes), ...shown.flatMap((chunk) => partsOf(chunk.type, chunk.data))]
  return [chunkHeader('ANMF', lengthOf(parts)), ...parts]
}

/** A chunk with its padding to an even number of bytes. */
function partsOf(type: string, data: Buffer): readonly Buffer[] {
  return [chunkHeader(type, data.length), data, Buffer.alloc(data.length % 2)]
}

function chunkHeader(type: string, length: number): Buffer {
  const header = Buffer.alloc(chunkHeaderBytes)
  header.write(type, 'latin1')
  header.writeUInt32LE(length, 4)
  return header
}

function chunksOf(bytes: Buffer, count: PartCount): readonly Chunk[] {
  const chunks: Chunk[] = []
  for (let offset = 0; offset < bytes.length; ) {
    count.add()
    const start = offset + chunkHeaderBytes
    const length = start <= bytes.length ? bytes.readUInt32LE(offset + 4) : Number.POSITIVE_INFINITY
    if (length > bytes.length - start) throw damaged()
    chunks.push({ type: bytes.toString('latin1', offset, offset + 4), data: bytes.subarray(start, start + length) })
    offset = start + length + (length % 2)
  }
  return chunks
}
