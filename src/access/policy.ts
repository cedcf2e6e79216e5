import type { AccountLimits } from '../limit-values.ts'
import { AccessError, type Account, type AccountLimitChanges, type Key, type KeyRequest } from './access.ts'
import type { ModelList, ModelListOwner } from './model-lists.ts'
import { isPast } from './refusals.ts'
import { type AdminRow, type KeyRow, toKey } from './rows.ts'

// What the stores of all engines decide alike: they read rows, ask here, and write what comes of it. Times are Unix seconds.

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

/** The refusal of a new account whose name another one has. */
export function accountTaken(name: string): AccessError {
  return new AccessError(`There is an account ${JSON.stringify(name)} already.`)
}

/**
 * An account from the moment on at which it is suspended.
 * @param given its name, as the refusal repeats it
 * @throws AccessError when it is suspended already
 */
export function suspended(account: Account, given: string, now: number): Account {
  if (account.suspended !== null) throw new AccessError(`The account ${JSON.stringify(given)} is suspended already.`)
  return { ...account, suspended: now }
}

/**
 * An account that is suspended no more.
 * @param given its name, as the refusal repeats it
 * @throws AccessError when it is not suspended
 */
export function resumed(account: Account, given: string): Account {
  if (account.suspended === null) throw new AccessError(`The account ${JSON.stringify(given)} is not suspended.`)
  return { ...account, suspended: null }
}

/** An account or a key with its limits changed: a null takes one away, and what is not named stays. */
export function limited<Subject extends { readonly limits: AccountLimits }>(
  subject: Subject,
  changes: AccountLimitChanges,
): Subject {
  const entries = Object.entries({ ...subject.limits, ...changes })
  return { ...subject, limits: Object.fromEntries(entries.filter(([, value]) => value !== null)) }
}

/** An account or a key with another list of models, null for all; as it was where there is none. */
export function withModels<Owner extends ModelListOwner>(owner: Owner, models: ModelList | null | undefined): Owner {
  return models === undefined ? owner : { ...owner, models }
}

/**
 * A key that is revoked at once.
 * @throws AccessError with the code `key_ended` for one that is revoked already
 */
export function revoked(key: Key, now: number): Key {
  if (isPast(key.revoked, now)) throw new AccessError(`The key ${key.prefix} is revoked already.`, 'key_ended')
  return { ...key, revoked: now }
}

/**
 * What becomes of a key that is rotated, and what its successor is to be: like it.
 * @param overlapSeconds for how long it goes on working
 * @throws AccessError with the code `key_ended` for a key that does not work any more, or has a successor
 */
export function rotated(
  key: Key,
  overlapSeconds: number,
  now: number,
): { readonly old: Key; readonly successor: KeyRequest } {
  const { account, scopes, name, expires, limits, models } = key
  if (isPast(key.revoked, now)) throw cannotRotate(key, 'is revoked')
  if (isPast(expires, now)) throw cannotRotate(key, 'has expired')
  if (key.revoked !== null) throw cannotRotate(key, 'has been rotated already')
  const asBefore = {
    ...(name === null ? {} : { name }),
    ...(expires === null ? {} : { expires }),
    ...(models ? { models } : {}),
  }
  return {
    old: { ...key, revoked: now + overlapSeconds },
    successor: { account: account.name, scopes, limits, ...asBefore },
  }
}

function cannotRotate({ prefix }: Key, why: string): AccessError {
  return new AccessError(`The key ${prefix} ${why}, so it cannot be rotated. Make a new one.`, 'key_ended')
}

/** Whether one of these keys lets an operator do everything. One that has a successor does not count. */
export function holdsAdmin(keys: readonly AdminRow[], now: number): boolean {
  return keys.some(
    ({ scopes, revoked, expires, suspended }) =>
      scopes.split(',').includes('admin') && revoked === null && !isPast(expires, now) && suspended === null,
  )
}

/**
 * Lets a change be made, unless it takes the last working key of the scope `admin` away.
 * @param before whether there was one, and `after` whether there is one still
 * @throws AccessError with the code `last_admin_key`
 */
export function checkAdminIsLeft(before: boolean, after: boolean): void {
  if (!before || after) return
  const message = 'No working key with the scope admin would be left. Make another one first.'
  throw new AccessError(message, 'last_admin_key')
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
  // What was given may be a whole secret, so it is not repeated.
  if (!row) throw new AccessError('There is no such key. See: conservatory keys list')
  if (!exact && rows.length > 1) throw severalKeys(given, rows)
  return toKey(row)
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
