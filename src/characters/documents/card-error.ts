import { ApiError } from '../../errors.ts'

/** The codes of faults of a card. */
export type CardErrorCode =
  | 'card_invalid'
  | 'card_not_found_in_image'
  | 'card_damaged'
  | 'card_too_large'
  | 'card_unsupported'

/** The refusal of a card: 413 if it is too large, else 400. The message gives the reason, and quotes nothing of the card. */
export class CardError extends ApiError {
  constructor(code: CardErrorCode, message: string, cause?: unknown) {
    super(code === 'card_too_large' ? 413 : 400, code, message, { cause })
    this.name = 'CardError'
  }
}
