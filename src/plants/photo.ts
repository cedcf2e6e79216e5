import { bufferOf, buffersOf, digestOf } from '../bytes.ts'
import { ApiError } from '../errors.ts'
import { isTooLarge, pictureFacts, pictureLimits, strippedParts } from '../pictures/facts.ts'
import { PictureError } from '../pictures/parts.ts'
import { defineJob } from '../work/job.ts'

/** The formats of photos. */
export const photoTypes = ['image/jpeg', 'image/png', 'image/webp'] as const
export type PhotoType = (typeof photoTypes)[number]

/** The most bytes of a photo. */
export const maxPhotoBytes = 8 * 1024 ** 2

/** A photo as replies name it. */
export interface PhotoFacts {
  readonly type: PhotoType
  readonly bytes: number
  /** `sha256:` and 64 hex digits. */
  readonly digest: string
}

/** A photo to store. */
export interface NewPhoto {
  readonly facts: PhotoFacts
  /** The bytes of the picture, without its metadata. */
  readonly picture: Uint8Array
}

/** Reads a photo by its bytes, and removes everything that is not needed to show it: see `strippedParts`. */
export const photoJob = defineJob(import.meta.url, 'photoJob', readPhoto, ({ picture }) => buffersOf(picture))

/** @throws ApiError 415 for another format, 400 for a broken picture, and for a picture that is too large to be shown */
function readPhoto(body: Uint8Array): NewPhoto {
  const bytes = bufferOf(body)
  const facts = pictureFacts(bytes)
  const type = photoTypes.find((each) => each === facts?.type)
  if (!facts || !type) throw noPhoto(bytes)
  if (isTooLarge(facts)) {
    const message = `The picture has ${facts.width} × ${facts.height} pixels. Send at most ${pictureLimits}.`
    throw new ApiError(400, 'picture_too_large', message)
  }
  const picture = Buffer.concat(strippedPartsOf(bytes, type))
  return { facts: { type, bytes: picture.length, digest: `sha256:${digestOf(picture)}` }, picture }
}

function strippedPartsOf(bytes: Buffer, type: PhotoType): readonly Buffer[] {
  try {
    return strippedParts(bytes, type)
  } catch (error) {
    throw error instanceof PictureError ? new ApiError(400, 'invalid_picture', error.message) : error
  }
}

/** The refusal of bytes that are no picture of a known format, or have no size in their header. */
function noPhoto({ length }: Buffer): ApiError {
  const message =
    length === 0
      ? 'The body is empty. Send the bytes of a JPEG, PNG or WebP.'
      : 'The body is no whole JPEG, PNG or WebP. Send the bytes of a picture in one of these formats.'
  return length === 0 ? new ApiError(400, 'empty_body', message) : new ApiError(415, 'unsupported_media_type', message)
}
