import type { PictureType } from './facts.ts'
import { strippedGif } from './gif.ts'
import { strippedJpeg } from './jpeg.ts'
import { strippedPng } from './png.ts'
import { strippedWebp } from './webp.ts'

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
