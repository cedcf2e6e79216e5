import { damaged, PartCount, readOrientation, writeOrientation } from './parts.ts'

/* Sections are those of ITU-T T.81 (JPEG). */

const start = Buffer.from([0xff, 0xd8])
const end = Buffer.from([0xff, 0xd9])
/** A JFIF segment (ITU-T T.871, section 10.1) without a density or a thumbnail. It says how the colours are coded. */
const jfif = Buffer.from('ffe000104a46494600010100000100010000', 'hex')
const exifName = 'Exif\0\0'
/** The bytes of Adobe's segment, which says how the colours are coded (Adobe technical note 5116, section 18). */
const adobeBytes = 12

interface Segment {
  readonly marker: number
  /** Its parameters, without marker and length. A view. */
  readonly data: Buffer
  /** The whole segment; for a start of scan with the coded pixels behind it. A view. */
  readonly whole: Buffer
}

/**
 * The parts of a JPEG that show it. Of the application segments only the orientation, the colour profile (ICC.1, annex B.4) and the
 * coding of the colours stay.
 * @throws PictureError
 */
export function strippedJpeg(bytes: Buffer): readonly Buffer[] {
  const parts = new Map<string, Buffer>()
  let count = 0
  for (const segment of segmentsOf(bytes)) {
    const { marker, data, whole } = segment
    if (isShown(marker) || (marker === 0xe2 && startsWith(data, 'ICC_PROFILE\0'))) parts.set(`${count++}`, whole)
    else {
      const [name, written] = rewritten(segment)
      // The first of each kind counts.
      if (written !== undefined && !parts.has(name)) parts.set(name, written)
    }
  }
  return [start, ...parts.values(), end]
}

/** The kind of an application segment, and what stays of it; undefined if nothing stays. */
function rewritten({ marker, data }: Segment): readonly [kind: string, segment?: Buffer] {
  if (marker === 0xe0 && startsWith(data, 'JFIF\0')) return ['JFIF', jfif]
  if (marker === 0xee && startsWith(data, 'Adobe') && data.length >= adobeBytes) return ['Adobe', adobe(data)]
  if (marker !== 0xe1 || !startsWith(data, exifName)) return ['other']
  const orientation = readOrientation(data.subarray(exifName.length))
  return orientation === undefined ? ['Exif'] : ['Exif', exif(orientation)]
}

function startsWith(data: Buffer, name: string): boolean {
  return data.toString('latin1', 0, name.length) === name
}

/** Whether a segment belongs to the picture itself: all but APPn, COM, JPGn and the reserved ones (table B.1). */
function isShown(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xdf && marker !== 0xc8
}

function adobe(data: Buffer): Buffer {
  return Buffer.concat([Buffer.from([0xff, 0xee, 0, 2 + adobeBytes]), data.subarray(0, adobeBytes)])
}

function exif(orientation: number): Buffer {
  const data = Buffer.concat([Buffer.from(exifName, 'latin1'), writeOrientation(orientation)])
  return Buffer.concat([Buffer.from([0xff, 0xe1, 0, 2 + data.length]), data])
}

/** The segments up to the end of the image, or to the end of a file without it (section B.1.1). */
function* segmentsOf(bytes: Buffer): Generator<Segment> {
  const count = new PartCount()
  let offset = start.length
  while (offset + 1 < bytes.length) {
    const marker = bytes[offset + 1] ?? 0
    if (bytes[offset] !== 0xff || marker === 0) throw damaged()
    if (marker === 0xd9) return
    if (isBare(marker)) {
      // The second byte of a pair of fill bytes may begin a marker.
      offset += marker === 0xff ? 1 : 2
      continue
    }
    count.add()
    const segment = segmentAt(bytes, offset, marker)
    yield segment
    offset += segment.whole.length
  }
}

/** Whether a byte after 0xFF has no parameters: fill bytes (section B.1.1.2), TEM, RSTn and SOI (section B.1.1.3). */
function isBare(marker: number): boolean {
  return marker === 0xff || marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)
}

function segmentAt(bytes: Buffer, offset: number, marker: number): Segment {
  const length = offset + 4 <= bytes.length ? bytes.readUInt16BE(offset + 2) : 0
  const dataEnd = offset + 2 + length
  if (length < 2 || dataEnd > bytes.length) throw damaged()
  const next = marker === 0xda ? endOfScan(bytes, dataEnd) : dataEnd
  return { marker, data: bytes.subarray(offset + 4, dataEnd), whole: bytes.subarray(offset, next) }
}

/** Where the coded pixels end: at a marker that is no restart (sections B.1.1.5 and E.1.4). */
function endOfScan(bytes: Buffer, from: number): number {
  for (let at = from; at + 1 < bytes.length; at++) {
    if (bytes[at] !== 0xff) continue
    const next = bytes[at + 1] ?? 0
    if (next !== 0 && next !== 0xff && (next < 0xd0 || next > 0xd7)) return at
  }
  return bytes.length
}
