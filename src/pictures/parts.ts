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
