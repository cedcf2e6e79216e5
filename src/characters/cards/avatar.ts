import { ApiError } from '../../errors.ts'
import { isTooLarge, type PictureType, pictureFacts, pictureLimits, strippedParts } from '../../pictures/facts.ts'
import { PictureError } from '../../pictures/parts.ts'
import { spend } from '../../work/fuel.ts'
import { Assets } from './assets.ts'
import type { CardSource } from './source.ts'

/** A character's public picture. */
export interface Avatar {
  readonly type: PictureType
  readonly bytes: Uint8Array
}

/**
 * The picture of a card: its main icon, or the picture that contains the card. It is reduced to the parts that are needed to show
 * it, because other parts may contain the card, or the place of a photo.
 * @throws ApiError 404 if there is no picture, if it is not a PNG, JPEG, WebP or GIF, if it is too large, or if it is damaged
 */
export function avatarOf(source: CardSource): Avatar {
  const picture = findPicture(source)
  const type = typeOf(picture)
  return { type, bytes: Buffer.concat(shownParts(picture, type)) }
}

/** The parts of a picture that show it. @throws ApiError 404 if the picture is damaged or has too many parts */
function shownParts(picture: Buffer, type: PictureType): readonly Buffer[] {
  // The slowest part is the search for the end of a JPEG's pixels.
  spend(picture.length >> 4)
  try {
    return strippedParts(picture, type)
  } catch (error) {
    if (error instanceof PictureError) throw new ApiError(404, 'avatar_unusable', error.message, { cause: error })
    throw error
  }
}

/** Whether a card has an avatar. If its picture cannot be shown, `warning` is a sentence with the reason. */
export function avatarProblem(source: CardSource): { readonly has: boolean; readonly warning: string | null } {
  try {
    const picture = findPicture(source)
    shownParts(picture, typeOf(picture))
    return { has: true, warning: null }
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    return { has: false, warning: error.code === 'avatar_not_found' ? null : error.message }
  }
}

function findPicture(source: CardSource): Buffer {
  const icon = new Assets(source).mainIcon()
  if (icon?.bytes === undefined) {
    throw new ApiError(404, 'avatar_not_found', 'The card of this character has no picture. Send a card that has one.')
  }
  return icon.bytes
}

function typeOf(bytes: Buffer): PictureType {
  const facts = pictureFacts(bytes)
  if (!facts) {
    const message = "The card's main icon is not a picture that can be shown. Use a PNG, JPEG, WebP or GIF as the icon."
    throw new ApiError(404, 'avatar_unusable', message)
  }
  if (!isTooLarge(facts)) return facts.type
  const message = `By its header, the card's picture has ${facts.width} × ${facts.height} pixels. The limit is ${pictureLimits}: make it smaller.`
  throw new ApiError(404, 'avatar_unusable', message)
}
