import { strippedGif } from './gif.ts'
import { strippedJpeg } from './jpeg.ts'
import { strippedPng } from './png.ts'
import { strippedWebp } from './webp.ts'

/*
 * Recognizes picture formats by their first bytes, and reads the size. Pixels are never decoded. Section numbers are those of
 * PNG's third edition, GIF89a, ITU-T T.81 (JPEG), and the WebP container specification.
 */

/** A picture format that browsers show. SVG is left out, because an SVG can run code. */
export type PictureType = 'image/png' | 'image/jpeg' | 'image/webp' | 'image/gif'

/** The format and size in a picture's header. Width and height are pixels. */
export interface PictureFacts {
  readonly type: PictureType
  readonly width: number
  readonly height: number
}

/** The most pixels of a side, and of a picture: 50 million pixels take 200 MB of a client's memory. */
const maxSidePixels = 16_384
const maxPixels = 50_000_000
/** The most segments of a JPEG in which its size is searched. */
const maxSegments = 1000

/** The format and the size of a picture; undefined for other bytes, and if the header has no size or a size of 0. */
export function pictureFacts(bytes: Buffer): PictureFacts | undefined {
  const head = bytes.toString('latin1', 0, 16)
  for (const [type, begins, sizeOf] of kinds) {
    if (!begins(head)) continue
    const size = bytes.length < minHeadBytes ? undefined : sizeOf(bytes)
    return size && size[0] > 0 && size[1] > 0 ? { type, width: size[0], height: size[1] } : undefined
  }
  return undefined
}

/** Whether a picture has more pixels than a client should have to decode. */
export function isTooLarge({ width, height }: PictureFacts): boolean {
  return width > maxSidePixels || height > maxSidePixels || width * height > maxPixels
}

/** The limits of a picture's size, as a part of a sentence. */
export const pictureLimits = `${maxSidePixels} pixels a side and ${maxPixels / 1e6} million in all`

type Size = readonly [width: number, height: number]

/** The fewest bytes of a picture. In all formats except JPEG, these bytes contain the size. */
const minHeadBytes = 30

type Kind = readonly [type: PictureType, begins: (head: string) => boolean, sizeOf: (bytes: Buffer) => Size | undefined]

const kinds: readonly Kind[] = [
  [
    'image/png',
    (head) => head.startsWith('\x89PNG\r\n\x1a\n\0\0\0\rIHDR'),
    (bytes) => [bytes.readUInt32BE(16), bytes.readUInt32BE(20)],
  ],
  ['image/gif', (head) => /^GIF8[79]a/.test(head), (bytes) => [bytes.readUInt16LE(6), bytes.readUInt16LE(8)]],
  ['image/webp', (head) => /^RIFF[\s\S]{4}WEBPVP8/.test(head), sizeOfWebp],
  ['image/jpeg', (head) => head.startsWith('\xff\xd8\xff'), sizeOfJpeg],
]

/** The size of the canvas of an extended file, or of the frame of a lossy (RFC 6386, section 9.1) or lossless file. */
function sizeOfWebp(bytes: Buffer): Size | undefined {
  const format = bytes.toString('latin1', 12, 16)
  if (format === 'VP8X') return [bytes.readUIntLE(24, 3) + 1, bytes.readUIntLE(27, 3) + 1]
  if (format === 'VP8 ') return [bytes.readUInt16LE(26) & 0x3fff, bytes.readUInt16LE(28) & 0x3fff]
  if (format !== 'VP8L' || bytes[20] !== 0x2f) return undefined
  const bits = bytes.readUInt32LE(21)
  return [(bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1]
}

/** The size in the frame header, which may come after many segments (section B.2.2). */
function sizeOfJpeg(bytes: Buffer): Size | undefined {
  let offset = 2
  for (let count = 0; count < maxSegments && offset + 9 <= bytes.length; count++) {
    const marker = bytes[offset + 1] ?? 0
    if (bytes[offset] !== 0xff) return undefined
    if (marker === 0xff) {
      offset++
      continue
    }
    if (isFrame(marker)) return [bytes.readUInt16BE(offset + 7), bytes.readUInt16BE(offset + 5)]
    offset += 2 + bytes.readUInt16BE(offset + 2)
  }
  return undefined
}

/**
 * Whether a marker begins a frame: 0xC0 to 0xCF (SOF0 to SOF15), without 0xC4 (DHT), 0xC8 (JPG) and 0xCC (DAC); section B.1.1.3.
 */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc
}

const strip: Readonly<Record<PictureType, (bytes: Buffer) => readonly Buffer[]>> = {
  'image/png': strippedPng,
  'image/jpeg': strippedJpeg,
  'image/webp': strippedWebp,
  'image/gif': strippedGif,
}

/**
 * A picture without everything that is not needed to show it, as parts in order. The pixels, their colours, the colour profile and
 * the orientation stay. Places and times in EXIF, XMP, comments, thumbnails, texts, unknown data and bytes after the end are
 * removed. Pixels are never decoded. The time and the number of parts are bounded, whatever the lengths in the file say.
 * @param type as `pictureFacts` has found it
 * @returns most parts are views of `bytes`; at most 60,000 parts, and a few bytes more than `bytes` has
 * @throws PictureError for a picture that is cut off within a part, is damaged, or has more than 20,000 parts
 */
export function strippedParts(bytes: Buffer, type: PictureType): readonly Buffer[] {
  return strip[type](bytes)
}
