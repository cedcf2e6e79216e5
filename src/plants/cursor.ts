import { ApiError } from '../errors.ts'
import type { Position } from './plant.ts'

/** Writes a place in a list as the opaque `after` parameter. */
export function writeCursor({ account, id }: Position): string {
  return Buffer.from(`${account}:${id}`).toString('base64url')
}

/**
 * Reads an `after` parameter.
 * @throws ApiError 400 for one that we did not write
 */
export function readCursor(cursor: string): Position {
  const [, account, id] = /^(\d{1,16}):(-?\d{1,16})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? []
  const position = { account: Number(account), id: Number(id) }
  // Written again it must be the same: decoding base64 passes over what does not belong in it.
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
