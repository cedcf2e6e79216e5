import { ApiError } from '../errors.ts'
import type { Position } from './plant.ts'

/** Encodes a position in a list as the opaque `after` parameter. */
export function writeCursor({ account, id }: Position): string {
  return Buffer.from(`${account}:${id}`).toString('base64url')
}

/**
 * Decodes an `after` parameter.
 * @throws ApiError 400 for a text that `writeCursor` cannot write
 */
export function readCursor(cursor: string): Position {
  const [, account, id] = /^(\d{1,16}):(-?\d{1,16})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? []
  const position = { account: Number(account), id: Number(id) }
  // The position must encode to the same text, because Node's base64 decoder skips characters that are not base64.
  const isOurs = Number.isSafeInteger(position.account) && Number.isSafeInteger(position.id)
  if (!isOurs || writeCursor(position) !== cursor) {
    throw new ApiError(
      400,
      'invalid_cursor',
      'The query parameter "after" is not valid: take the whole address from the last reply\'s Link header.',
      { param: 'after' },
    )
  }
  return position
}
