import { type Limits, storedLimits } from '../limit-values.ts'
import { AccessError, type Account, isScope, type Key, type LimitChanges } from './access.ts'

/** An account as the database keeps it. */
export interface AccountRow {
  readonly id: number
  readonly name: string
  readonly created: number
  readonly suspended: number | null
  readonly limits: string
}

/** A key and its account as the database keeps them. */
export interface KeyRow {
  readonly id: string
  readonly account: number
  readonly account_name: string
  readonly account_created: number
  readonly account_suspended: number | null
  readonly account_limits: string
  readonly prefix: string
  readonly name: string | null
  readonly digest: string
  readonly scopes: string
  readonly created: number
  readonly expires: number | null
  readonly revoked: number | null
  readonly last_used: number | null
  readonly limits: string
}

/** Selects rows that `toKey` reads. */
export const selectKeys = `
  SELECT keys.*, accounts.name AS account_name, accounts.created AS account_created,
    accounts.suspended AS account_suspended, accounts.limits AS account_limits
  FROM keys JOIN accounts ON accounts.id = keys.account`

/** The key that a row tells of. */
export function toKey(row: KeyRow): Key {
  return {
    id: row.id,
    account: {
      id: row.account,
      name: row.account_name,
      created: row.account_created,
      suspended: row.account_suspended,
      limits: storedLimits(row.account_limits),
    },
    prefix: row.prefix,
    name: row.name,
    scopes: row.scopes.split(',').filter(isScope),
    created: row.created,
    expires: row.expires,
    revoked: row.revoked,
    lastUsed: row.last_used,
    limits: storedLimits(row.limits),
  }
}

/** The account that a row tells of. */
export function toAccount(row: AccountRow): Account {
  return { ...row, limits: storedLimits(row.limits) }
}

/** A shorter beginning names no key: all keys that we make begin with `cv_`. */
const shortestBeginning = 4

/** The beginning of a prefix that may be meant by this; null for one that is too short to mean any. */
export function beginningIn(text: string): string | null {
  return text.length < shortestBeginning ? null : text
}

/**
 * The key that an operator means by all of it, by its id, by its prefix, or by a beginning of that.
 * @param rows those that it may be
 * @param digest of what was given
 * @throws AccessError when it may be none of them, or more than one
 */
export function meantKey(rows: readonly KeyRow[], given: string, digest: string): Key {
  const exact =
    rows.find((row) => row.digest === digest) ??
    rows.find(({ id }) => id === given) ??
    rows.find(({ prefix }) => prefix === given)
  const row = exact ?? rows[0]
  if (!row) throw unknownKey()
  if (!exact && rows.length > 1) throw severalKeys(given, rows)
  return toKey(row)
}

/**
 * The name of a new account, trimmed.
 * @throws AccessError when it cannot be one
 */
export function accountNamed(name: string): string {
  const trimmed = name.trim()
  if (/^[\p{L}\p{N}][\p{L}\p{N} ._@-]{0,99}$/u.test(trimmed)) return trimmed
  throw new AccessError(
    `${JSON.stringify(name)} cannot be an account's name; use up to 100 letters, digits, spaces and . _ @ -`,
  )
}

/** The refusal of a key that is not there; what was given may be a whole secret, so it is not repeated. */
export function unknownKey(): AccessError {
  return new AccessError('There is no such key. See: conservatory keys list')
}

/** How many keys a refusal names. */
const mostNamed = 10

/** The refusal of a beginning that several keys share. */
function severalKeys(given: string, rows: readonly KeyRow[]): AccessError {
  const named = rows
    .slice(0, mostNamed)
    .map(({ prefix, account_name }) => `${prefix} of ${JSON.stringify(account_name)}`)
  const more = rows.length > mostNamed ? ` and ${rows.length - mostNamed} more` : ''
  return new AccessError(
    `Several keys begin with ${JSON.stringify(given)}: ${named.join(', ')}${more}. Name one of them.`,
  )
}

/** The refusal to take the last working key with the scope `admin` away. */
export function lastAdminKey(): AccessError {
  const message = 'No working key with the scope admin would be left. Make another one first.'
  return new AccessError(message, 'last_admin_key')
}

/** Limits after changes. */
export function withChanges(limits: Limits, changes: LimitChanges): Limits {
  const entries = Object.entries({ ...limits, ...changes })
  return Object.fromEntries(entries.filter(([, value]) => value !== null))
}
