import { ApiError } from '../errors.ts'
import { limitNames } from '../limit-values.ts'
import { type Key, type KeyRequest, type Scope, scopes } from './access.ts'
import { modelsExceed } from './model-lists.ts'
import { endOf } from './refusals.ts'

/** What a key may do, for how long and how often, and with which models: nobody hands out more of it over HTTP than they have. */
export interface Powers extends Pick<Key, 'scopes' | 'limits' | 'models'> {
  /** When it stops working, Unix seconds; null for never. */
  readonly ends: number | null
}

/** Something that a key would have beyond the one that makes, rotates or revokes it. */
export interface Excess {
  /** `scopes`, `expires`, `limits.NAME` or `models`. */
  readonly param: string
  /** A sentence that says what to change. */
  readonly message: string
}

type Rule = (holder: Powers, wanted: Powers) => Excess | undefined

/** In the order in which they are told. */
const rules: readonly Rule[] = [excessOfScopes, excessOfLife, excessOfLimits, excessOfModels]

/** What a key that is there can do. */
export function powersOf(key: Key): Powers {
  return { scopes: key.scopes, ends: endOf(key), limits: key.limits, models: key.models }
}

/** What a key that is asked for could do. */
export function powersAskedFor({ scopes, expires, limits = {}, models = null }: Omit<KeyRequest, 'account'>): Powers {
  return { scopes, ends: expires ?? null, limits, models }
}

/**
 * What another key has beyond this one, the first of it; undefined where it has nothing. The scope `admin` has all others.
 * @param holder the key that makes, rotates or revokes the other
 */
export function excessOver(holder: Powers, wanted: Powers): Excess | undefined {
  for (const rule of rules) {
    const excess = rule(holder, wanted)
    if (excess) return excess
  }
  return undefined
}

/**
 * Refuses to make a key that has more than its maker. The scope `admin` is given by the command line alone.
 * @throws ApiError 403 `exceeds_your_key` with the field at fault
 */
export function checkMayMake(maker: Powers, wanted: Powers): void {
  if (wanted.scopes.includes('admin')) {
    const command = 'conservatory keys create --scopes admin'
    throw exceeds({ param: 'scopes', message: `The scope "admin" is given by the command line alone: ${command}.` })
  }
  checkMayRotate(maker, wanted)
}

/**
 * Refuses to rotate a key that has more than the one that asks, which would get another one like it.
 * @throws ApiError 403 `exceeds_your_key` with what it has more
 */
export function checkMayRotate(holder: Powers, wanted: Powers): void {
  const excess = excessOver(holder, wanted)
  if (excess) throw exceeds(excess)
}

/**
 * Refuses to revoke a key that has more than the one that asks. Nothing is handed out: the operator revokes any.
 * @throws ApiError 403 `exceeds_your_key` with what it has more
 */
export function checkMayRevoke(holder: Powers, wanted: Powers): void {
  if (!holder.scopes.includes('admin')) checkMayRotate(holder, wanted)
}

function excessOfScopes(holder: Powers, wanted: Powers): Excess | undefined {
  const held: readonly Scope[] = holder.scopes.includes('admin') ? scopes : holder.scopes
  const missing = wanted.scopes.filter((scope) => !held.includes(scope)).map((scope) => `"${scope}"`)
  if (missing.length === 0) return undefined
  return {
    param: 'scopes',
    message: `Your key lacks ${missing.join(', ')} of the key's scopes. Use one that has them.`,
  }
}

function excessOfLife(holder: Powers, wanted: Powers): Excess | undefined {
  if (holder.ends === null || (wanted.ends !== null && wanted.ends <= holder.ends)) return undefined
  const message = `Your key ends at ${holder.ends} (Unix seconds), and that key must not end later. Use one that lasts longer.`
  return { param: 'expires', message }
}

function excessOfLimits(holder: Powers, wanted: Powers): Excess | undefined {
  for (const name of limitNames) {
    const most = holder.limits[name]
    const asked = wanted.limits[name]
    if (most === undefined || (asked !== undefined && asked <= most)) continue
    const message = `Your key has the limit ${name}=${most}, and that key must have it too, as high at most.`
    return { param: `limits.${name}`, message }
  }
  return undefined
}

function excessOfModels(holder: Powers, wanted: Powers): Excess | undefined {
  if (!modelsExceed(holder, wanted.models)) return undefined
  const message = `Your key may use these models alone, and that key must not have more: ${holder.models?.join(', ')}.`
  return { param: 'models', message }
}

function exceeds({ param, message }: Excess): ApiError {
  return new ApiError(403, 'exceeds_your_key', message, { param })
}
