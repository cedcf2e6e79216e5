import { ApiError } from '../errors.ts'
import { unixSeconds } from '../time.ts'
import type { Key } from './access.ts'

/** A 401 with the challenge that RFC 9110, section 11.6.1, requires. */
export function unauthorized(code: string, message: string): ApiError {
  return new ApiError(401, code, message, { headers: { 'www-authenticate': 'Bearer' } })
}

/** Why a key is refused now; undefined for a working key. A missing key was deleted with its account. */
export function refusalOf(key: Key | undefined): ApiError | undefined {
  const now = unixSeconds()
  if (!key || (key.revoked ?? Infinity) <= now) {
    return unauthorized('key_revoked', 'The key has been revoked. Ask for a new one.')
  }
  if ((key.expires ?? Infinity) <= now) return unauthorized('key_expired', 'The key has expired. Ask for a new one.')
  if (key.account.suspended === null) return undefined
  return new ApiError(403, 'account_suspended', 'The account of this key is suspended. Ask the operator.')
}

/** Whether a key has ended permanently. A key of a suspended account has not ended: the account may be resumed. */
export function hasEnded({ revoked, expires }: Pick<Key, 'revoked' | 'expires'>): boolean {
  return isPast(revoked) || isPast(expires)
}

/** When a key ends, in Unix seconds: at its expiry, or at the end of its overlap with a successor; null for never. */
export function endOf({ revoked, expires }: Pick<Key, 'revoked' | 'expires'>): number | null {
  return revoked === null ? expires : Math.min(revoked, expires ?? revoked)
}

/** Whether a moment in Unix seconds has come; false for null. */
export function isPast(moment: number | null, now?: number): boolean {
  return moment !== null && moment <= (now ?? unixSeconds())
}
