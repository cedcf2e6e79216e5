/** A picture that is damaged, cut off, or made of too many parts. The message is a sentence that says what to change. */
export class PictureError extends Error {
  override readonly name = 'PictureError'
  readonly reason: 'damaged' | 'too_many_parts'

  constructor(reason: PictureError['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

/** The error of a picture that ends within one of its parts, or has bytes where a part should begin. */
export function damaged(): PictureError {
  return new PictureError(
    'damaged',
    'The picture is cut off or damaged: a part of it ends after the end of the file, or does not begin correctly. Send it again.',
  )
}

/** The most parts of a picture. libpng writes the pixels in chunks of 8 KiB, so a picture of 60 MB has 7,700. */
const maxParts = 20_000

/** Counts the parts of a picture while they are read, because each of them takes time and memory. */
export class PartCount {
  #count = 0

  /** Counts one more part. @throws PictureError if the picture has too many */
  add(): void {
    if (this.#count++ < maxParts) return
    const message = `The picture has more than ${maxParts} parts. Use a picture with fewer parts.`
    throw new PictureError('too_many_parts', message)
  }
}

/*
 * The orientation of a picture in EXIF data (CIPA DC-008, Exif 3.0, section 4.6), whose form is TIFF 6.0 (section 2). Viewers turn
 * the pixels by it.
 */

const orientationTag = 0x0112
const shortType = 3
const entryBytes = 12

/**
 * Reads the orientation in EXIF data.
 * @param tiff the data from its byte order on
 * @returns 2 to 8; undefined if the pixels are not to be turned, and for faulty data
 */
export function readOrientation(tiff: Buffer): number | undefined {
  const isLittle = tiff.toString('latin1', 0, 4) === 'II*\0'
  if ((!isLittle && tiff.toString('latin1', 0, 4) !== 'MM\0*') || tiff.length < 8) return undefined
  const short = (at: number) => (isLittle ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at))
  const directory = isLittle ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4)
  if (directory + 2 > tiff.length) return undefined
  const end = Math.min(tiff.length, directory + 2 + short(directory) * entryBytes)
  for (let entry = directory + 2; entry + entryBytes <= end; entry += entryBytes) {
    if (short(entry) !== orientationTag || short(entry + 2) !== shortType) continue
    const orientation = short(entry + 8)
    return orientation >= 2 && orientation <= 8 ? orientation : undefined
  }
  return undefined
}

/** Writes EXIF data that has nothing but an orientation. */
export function writeOrientation(orientation: number): Buffer {
  const tiff = Buffer.from('MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0', 'latin1')
  tiff.writeUInt16BE(orientation, 18)
  return tiff
}
