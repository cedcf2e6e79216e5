import { randomUUID } from 'node:crypto'
import { type AuditAction, type AuditEntry, changesOf, type Facts } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import { type AccountLimits, lowerOf } from '../limit-values.ts'
import { unixSeconds } from '../time.ts'
import {
  AccessError,
  type Account,
  type AccountLimitChanges,
  type Key,
  type KeyRequest,
  keyNameProblem,
  type LimitChanges,
  type Maker,
  type NewKey,
} from './access.ts'
import { keyPrefix, makeKey } from './key.ts'
import type { ModelList, ModelListOwner } from './model-lists.ts'
import { isPast, refusalOf } from './refusals.ts'
import { type AdminRow, type KeyRow, toKey } from './rows.ts'

// Decisions that are the same for all engines: a store reads rows, calls a function of this file, and writes the result.
// Times are Unix seconds.

/**
 * The name of a new account, trimmed.
 * @throws AccessError when the text cannot be a name
 */
export function accountNamed(name: string): string {
  const trimmed = name.trim()
  if (/^[\p{L}\p{N}][\p{L}\p{N} ._@-]{0,99}$/u.test(trimmed)) return trimmed
  throw new AccessError(
    `${JSON.stringify(name)} cannot be an account's name; use up to 100 letters, digits, spaces and . _ @ -, and begin with a letter or a digit`,
  )
}

/** The refusal of a new account whose name is taken. */
export function accountTaken(name: string): AccessError {
  return new AccessError(`There is an account ${JSON.stringify(name)} already.`)
}

/**
 * The account after it is suspended now.
 * @param given the name that the refusal shows
 * @throws AccessError when the account is already suspended
 */
export function suspended(account: Account, given: string, now: number): Account {
  if (account.suspended !== null) throw new AccessError(`The account ${JSON.stringify(given)} is suspended already.`)
  return { ...account, suspended: now }
}

/**
 * The account after its suspension has ended.
 * @param given the name that the refusal shows
 * @throws AccessError when the account is not suspended
 */
export function resumed(account: Account, given: string): Account {
  if (account.suspended === null) throw new AccessError(`The account ${JSON.stringify(given)} is not suspended.`)
  return { ...account, suspended: null }
}

/** An account or a key with changed limits: null removes a limit, and limits without an entry stay. */
export function limited<Subject extends { readonly limits: AccountLimits }>(
  subject: Subject,
  changes: AccountLimitChanges,
): Subject {
  const entries = Object.entries({ ...subject.limits, ...changes })
  return { ...subject, limits: Object.fromEntries(entries.filter(([, value]) => value !== null)) }
}

/** A key after changes of its own limits. */
export function limitedKey(key: Key, changes: LimitChanges): Key {
  const { limits: ownLimits } = limited<Pick<Key, 'limits'>>({ limits: key.ownLimits }, changes)
  return { ...key, ownLimits, limits: lowerOf(ownLimits, key.maker?.limits) }
}

/**
 * The maker in which the keys count that this key makes over HTTP; null without limits.
 * @throws ApiError 401 or 403 when the key has ended meanwhile
 */
export function makerFrom(key: Key | undefined): Maker | null {
  const refusal = refusalOf(key)
  if (refusal) throw refusal
  if (!key || Object.keys(key.limits).length === 0) return null
  return { subject: key.subject, limits: key.limits }
}

/** Where a new key counts. */
export interface Counting {
  /** The subject of the key that a rotation replaces; by default the new key is a new subject. */
  readonly subject?: string
  readonly maker: Maker | null
}

/** A new key; its secret is random, unless the request presets it. @throws AccessError for an invalid request */
export function newKey(request: KeyRequest, account: Account, { subject, maker }: Counting): NewKey {
  const problem = request.name === undefined ? undefined : keyNameProblem(request.name)
  if (problem !== undefined) throw new AccessError(`The key's name ${problem}.`)
  if (request.scopes.length === 0) throw new AccessError('A key needs a scope. Give it one or more.')
  const { secret = makeKey(), limits: ownLimits = {} } = request
  const id = `key_${randomUUID().replaceAll('-', '')}`
  const key: Key = {
    id,
    account,
    prefix: keyPrefix(secret),
    name: request.name?.trim() ?? null,
    scopes: request.scopes,
    created: unixSeconds(),
    expires: request.expires ?? null,
    revoked: null,
    lastUsed: null,
    limits: lowerOf(ownLimits, maker?.limits),
    ownLimits,
    subject: subject ?? id,
    maker,
    models: request.models ?? null,
  }
  return { key, secret }
}

/** The account or key with another list of models. The list null allows all models; undefined changes nothing. */
export function withModels<Owner extends ModelListOwner>(owner: Owner, models: ModelList | null | undefined): Owner {
  return models === undefined ? owner : { ...owner, models }
}

/**
 * The key after it is revoked now.
 * @throws AccessError with the code `key_ended` when the key is already revoked
 */
export function revoked(key: Key, now: number): Key {
  if (isPast(key.revoked, now)) throw new AccessError(`The key ${key.prefix} is revoked already.`, 'key_ended')
  return { ...key, revoked: now }
}

/**
 * A rotated key, and the request for its successor, which has the same properties.
 * @param overlapSeconds how long the old key goes on working
 * @throws AccessError with the code `key_ended` when the key has ended or has a successor
 */
export function rotated(
  key: Key,
  overlapSeconds: number,
  now: number,
): { readonly old: Key; readonly successor: KeyRequest } {
  const { account, scopes, name, expires, ownLimits: limits, models } = key
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

/** Whether one of these keys is a working key of the scope `admin`. A key with a successor does not count. */
export function holdsAdmin(keys: readonly AdminRow[], now: number): boolean {
  return keys.some(
    ({ scopes, revoked, expires, suspended }) =>
      scopes.split(',').includes('admin') && revoked === null && !isPast(expires, now) && suspended === null,
  )
}

/**
 * Refuses a change that ends the last working key with the scope `admin`.
 * @param before whether there was a working key of the scope `admin` before the change
 * @param after whether there is one after the change
 * @throws AccessError with the code `last_admin_key`
 */
export function checkAdminIsLeft(before: boolean, after: boolean): void {
  if (!before || after) return
  const message = 'No working key with the scope admin would be left. Make another one first.'
  throw new AccessError(message, 'last_admin_key')
}

/** The minimum length of a text that is searched for as the beginning of a prefix. All keys of the service begin with `cv_`. */
const minSearchLength = 4

/**
 * The first and the last text that begin with the given text, in the order of their bytes, to search for prefixes by their index;
 * undefined when the given text is too short.
 */
export function prefixesBeginningWith(given: string): { readonly first: string; readonly last: string } | undefined {
  return given.length < minSearchLength ? undefined : { first: given, last: `${given}\u{10FFFF}` }
}

/**
 * The key that matches a whole key, an id, a prefix, or the beginning of a prefix.
 * @param rows the candidates
 * @param digest the digest of the given text
 * @throws AccessError when no key matches, or more than one
 */
export function matchingKey(rows: readonly KeyRow[], given: string, digest: string): Key {
  const exact =
    rows.find((row) => row.digest === digest) ??
    rows.find(({ id }) => id === given) ??
    rows.find(({ prefix }) => prefix === given)
  const row = exact ?? rows[0]
  if (!row) throw noSuchKey()
  if (!exact && rows.length > 1) throw severalKeys(given, rows)
  return toKey(row)
}

/** The key, if there is one and it belongs to this account. @throws AccessError otherwise */
export function keyIn(account: number, key: Key | undefined): Key {
  if (key?.account.id !== account) throw noSuchKey()
  return key
}

/**
 * Checks that an account with `count` working keys may have one key more.
 * @throws ApiError 429, without `Retry-After`: the number of keys does not fall by waiting
 */
export function checkKeysLimit(limit: number, count: number): void {
  if (count < limit) return
  const message = `The limit "keys" of ${limit} is reached: the account has as many working keys or more. Revoke keys, or ask the operator for a higher limit.`
  throw new ApiError(429, 'keys_limit', message)
}

/** The refusal of a text or an id that names no key. The text may be a whole secret, so the message does not repeat it. */
function noSuchKey(): AccessError {
  return new AccessError('There is no such key. See: conservatory keys list')
}

/** The most keys that a refusal lists. */
const maxNamed = 10

/** How many keys with a beginning of their prefix a store reads: one more than a refusal lists. */
export const maxMatches = maxNamed + 1

/** The refusal of a text with which several prefixes begin. */
function severalKeys(given: string, rows: readonly KeyRow[]): AccessError {
  const named = rows
    .slice(0, maxNamed)
    .map(({ prefix, account_name }) => `${prefix} of ${JSON.stringify(account_name)}`)
  const more = rows.length > maxNamed ? ' and more' : ''
  return new AccessError(
    `Several keys begin with ${JSON.stringify(given)}: ${named.join(', ')}${more}. Name one of them.`,
  )
}

/** The audit entry of a new or deleted account. */
export function accountEntry(action: 'account.created' | 'account.deleted', account: Account): AuditEntry {
  const { id, name } = account
  const facts = factsOfAccount(account)
  const isNew = action === 'account.created'
  return { action, target: name, account: { id, name }, before: isNew ? null : facts, after: isNew ? facts : null }
}

/** The audit entry of a changed account. */
export function accountChange(action: AuditAction, before: Account, after: Account): AuditEntry {
  const { id, name } = after
  return { action, target: name, account: { id, name }, ...changesOf(factsOfAccount(before), factsOfAccount(after)) }
}

/** The audit entry of a new key. */
export function newKeyEntry(key: Key): AuditEntry {
  return { action: 'key.created', target: key.prefix, account: key.account, before: null, after: factsOfKey(key) }
}

/** The audit entry of a changed key. @param successor the new key of a rotation */
export function keyChange(action: AuditAction, before: Key, after: Key, successor?: Key): AuditEntry {
  const { before: was, after: is } = changesOf(factsOfKey(before), factsOfKey(after))
  const added = successor && { successor: successor.prefix }
  return { action, target: after.prefix, account: after.account, before: was, after: { ...is, ...added } }
}

function factsOfAccount({ suspended, limits, models, timeZone }: Account): Facts {
  return { suspended, limits, models, time_zone: timeZone }
}

/** The properties of a key that audit records show. */
function factsOfKey({ account, name, scopes, expires, revoked, limits, models }: Key): Facts {
  return { account: account.name, name, scopes, expires, revoked, limits, models }
}
