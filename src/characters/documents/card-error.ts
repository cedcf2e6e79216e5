import { ApiError } from '../../errors.ts'

/** What can be wrong with a card, as callers and commands are told. */
export type CardErrorCode =
  | 'card_invalid'
  | 'card_not_found_in_image'
  | 'card_damaged'
  | 'card_too_large'
  | 'card_unsupported'

/** A card that cannot be taken: a 400 (413 when it is too large) whose sentence says why and quotes nothing of it. */
export class CardError extends ApiError {
  constructor(code: CardErrorCode, message: string, cause?: unknown) {
    super(code === 'card_too_large' ? 413 : 400, code, message, { cause })
    this.name = 'CardError'
  }
}
