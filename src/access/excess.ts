import { ApiError } from '../errors.ts'
import { limitNames } from '../limit-values.ts'
import { type Key, type KeyRequest, type Scope, scopes } from './access.ts'
import { modelsExceed } from './model-lists.ts'
import { endOf } from './refusals.ts'

/** The scopes, the end, the limits and the models of a key. Over HTTP, a key cannot give another key more than it has itself. */
export interface Permissions extends Pick<Key, 'scopes' | 'limits' | 'models'> {
  /** When the key stops working, in Unix seconds; null for never. */
  readonly ends: number | null
}

/** A permission that a key has beyond the permissions of the key that creates, rotates or revokes it. */
export interface Excess {
  /** `scopes`, `expires`, `limits.NAME` or `models`. */
  readonly param: string
  /** A sentence that says what to change. */
  readonly message: string
}

type Rule = (holder: Permissions, other: Permissions) => Excess | undefined

/** The first rule with an excess decides the message. */
const rules: readonly Rule[] = [excessOfScopes, excessOfLife, excessOfLimits, excessOfModels]

/** The permissions of an existing key. */
export function permissionsOf(key: Key): Permissions {
  return { scopes: key.scopes, ends: endOf(key), limits: key.limits, models: key.models }
}

/** The permissions of a requested key. */
export function requestedPermissions({
  scopes,
  expires,
  limits = {},
  models = null,
}: Omit<KeyRequest, 'account'>): Permissions {
  return { scopes, ends: expires ?? null, limits, models }
}

/**
 * The first permission in `other` that the holder lacks; undefined if the holder has all. Here `admin` counts as all scopes.
 * @param holder the permissions of the key that creates, rotates or revokes the other key
 */
function excessOver(holder: Permissions, other: Permissions): Excess | undefined {
  for (const rule of rules) {
    const excess = rule(holder, other)
    if (excess) return excess
  }
  return undefined
}

/**
 * Refuses to create a key with more permissions than its maker has. Over HTTP only a successor gets the scope `admin`, and a key
 * with limits cannot give the scope `keys`.
 * @throws ApiError 403 `exceeds_your_key` with the field of the excess
 */
export function checkMayMake(maker: Permissions, other: Permissions): void {
  if (other.scopes.includes('admin')) {
    const command = 'conservatory keys create --account NAME --scopes admin'
    throw exceeds({ param: 'scopes', message: `Only the command line gives the scope "admin": ${command}.` })
  }
  checkMayRotate(maker, other)
  // Otherwise keys would make keys in any number, each with limits of its own.
  if (other.scopes.includes('keys') && Object.keys(maker.limits).length > 0) {
    const message =
      'Your key has limits, so it cannot give the scope "keys" to another key. Use a key without limits, or leave this scope out.'
    throw exceeds({ param: 'scopes', message })
  }
}

/**
 * Refuses to rotate a key with more permissions than the caller's key, because the caller gets the successor of the rotated key.
 * @throws ApiError 403 `exceeds_your_key` with the field of the excess
 */
export function checkMayRotate(holder: Permissions, other: Permissions): void {
  const excess = excessOver(holder, other)
  if (excess) throw exceeds(excess)
}

/**
 * Refuses to revoke a key with more permissions than the caller's key. A key with the scope `admin` may revoke any key, because a
 * revocation gives no permission to another key.
 * @throws ApiError 403 `exceeds_your_key` with the field of the excess
 */
export function checkMayRevoke(holder: Permissions, other: Permissions): void {
  if (!holder.scopes.includes('admin')) checkMayRotate(holder, other)
}

function excessOfScopes(holder: Permissions, other: Permissions): Excess | undefined {
  const held: readonly Scope[] = holder.scopes.includes('admin') ? scopes : holder.scopes
  const missing = other.scopes.filter((scope) => !held.includes(scope)).map((scope) => `"${scope}"`)
  if (missing.length === 0) return undefined
  return {
    param: 'scopes',
    message: `Your key lacks ${missing.join(', ')} of the other key's scopes. Use a key that has these scopes.`,
  }
}

function excessOfLife(holder: Permissions, other: Permissions): Excess | undefined {
  if (holder.ends === null || (other.ends !== null && other.ends <= holder.ends)) return undefined
  const message = `Your key ends at ${holder.ends} (Unix seconds), and the other key must not end later. Use a key that ends later, or has no end.`
  return { param: 'expires', message }
}

function excessOfLimits(holder: Permissions, other: Permissions): Excess | undefined {
  for (const name of limitNames) {
    const max = holder.limits[name]
    const requested = other.limits[name]
    if (max === undefined || (requested !== undefined && requested <= max)) continue
    const message = `Your key has the limit ${name}=${max}, and the other key must have this limit too, with the same or a lower value.`
    return { param: `limits.${name}`, message }
  }
  return undefined
}

function excessOfModels(holder: Permissions, other: Permissions): Excess | undefined {
  if (!modelsExceed(holder, other.models)) return undefined
  const message = `Your key may use these models alone, and the other key must not have more: ${holder.models?.join(', ')}.`
  return { param: 'models', message }
}

function exceeds({ param, message }: Excess): ApiError {
  return new ApiError(403, 'exceeds_your_key', message, { param })
}
