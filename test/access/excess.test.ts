import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { scopes } from '../../src/access/access.ts'
import {
  checkMayMake,
  checkMayRevoke,
  checkMayRotate,
  type Permissions,
  requestedPermissions,
} from '../../src/access/excess.ts'
import { ApiError } from '../../src/errors.ts'
import { limitNames } from '../../src/limit-values.ts'

const permissions: fc.Arbitrary<Permissions> = fc.record({
  scopes: fc.subarray([...scopes]),
  ends: fc.option(fc.nat({ max: 9 }), { nil: null }),
  limits: fc.dictionary(fc.constantFrom(...limitNames), fc.nat({ max: 9 }), { maxKeys: 3 }),
  models: fc.option(fc.subarray(['a', 'a/b', 'a/*'], { minLength: 1 }), { nil: null }),
})

const nothing: Permissions = { scopes: [], ends: null, limits: {}, models: null }

/** The rules in their simplest form: whether a key has the scopes, the lifetime, the limits and the models of another key. */
function holdsAll(holder: Permissions, other: Permissions): boolean {
  const hasScopes = other.scopes.every((scope) => holder.scopes.includes(scope) || holder.scopes.includes('admin'))
  const lasts = (other.ends ?? Number.POSITIVE_INFINITY) <= (holder.ends ?? Number.POSITIVE_INFINITY)
  const isLimited = limitNames.every(
    (name) => (other.limits[name] ?? Number.POSITIVE_INFINITY) <= (holder.limits[name] ?? Number.POSITIVE_INFINITY),
  )
  const held = holder.models ?? ['a', 'a/b', 'a/*', 'all']
  const covered = held.includes('a/*') ? [...held, 'a/b'] : held
  const hasModels = (other.models ?? ['all']).every((entry) => covered.includes(entry))
  return hasScopes && lasts && isLimited && hasModels
}

function refusalOf(check: (holder: Permissions, other: Permissions) => void, holder: Permissions, other: Permissions) {
  try {
    check(holder, other)
    return undefined
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
}

describe('the permissions that a key gives to others', () => {
  it('may be all that the key has, and no others', () => {
    fc.assert(
      fc.property(permissions, permissions, (holder, other) => {
        const refusal = refusalOf(checkMayRotate, holder, other)
        expect(refusal === undefined).toBe(holdsAll(holder, other))
        const mayRevoke = refusalOf(checkMayRevoke, holder, other) === undefined
        expect(mayRevoke).toBe(holder.scopes.includes('admin') || refusal === undefined)
        if (refusal) expect([refusal.status, refusal.code]).toEqual([403, 'exceeds_your_key'])
      }),
    )
  })

  it('are checked in the order scopes, expiry, limits, models, and the refusal names the first one that exceeds the giver’s', () => {
    const holder: Permissions = {
      scopes: ['keys'],
      ends: 5,
      limits: { plants: 5, requests_per_minute: 5 },
      models: ['a'],
    }
    const paramOf = (other: Partial<Permissions>) => refusalOf(checkMayMake, holder, { ...nothing, ...other })?.param
    expect(paramOf({ scopes: ['chat'] })).toBe('scopes')
    expect(paramOf({ scopes: ['keys'] })).toBe('expires')
    expect(paramOf({ ends: 6, limits: { plants: 6 } })).toBe('expires')
    expect(paramOf({ ends: 5, limits: { plants: 6 } })).toBe('limits.requests_per_minute')
    expect(paramOf({ ends: 5, limits: { requests_per_minute: 5, plants: 6 } })).toBe('limits.plants')
    const limits = { requests_per_minute: 5, plants: 5 }
    expect(paramOf({ ends: 5, limits })).toBe('models')
    expect(paramOf({ ends: 5, limits, models: ['a', 'b'] })).toBe('models')
    expect(paramOf({ ends: 5, limits, models: ['a'] })).toBeUndefined()
  })

  it('have by default no expiry, no limits and no list of models', () => {
    expect(requestedPermissions({ scopes: ['chat'] })).toStrictEqual({ ...nothing, scopes: ['chat'] })
  })
})
