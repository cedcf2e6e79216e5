import { randomUUID } from 'node:crypto'
import { lowerOf } from '../limit-values.ts'
import { unixSeconds } from '../time.ts'
import {
  AccessError,
  type Account,
  type Key,
  type KeyRequest,
  keyNameProblem,
  type Maker,
  type NewKey,
} from './access.ts'
import { keyPrefix, makeKey } from './key.ts'

/** Where a new key counts. */
export interface Counting {
  /** The subject of the key that a rotation replaces; by default the new key is a new subject. */
  readonly subject?: string
  readonly maker: Maker | null
}

/** How many random keys are tried to find an unused prefix. */
const maxAttempts = 100

/**
 * Yields keys with random secrets, until the caller finds a key with an unused prefix: prefixes identify keys on the command
 * line. A preset secret is yielded only once.
 * @throws AccessError for an invalid request, and when no further key can be made
 */
export function* newKeys(
  request: KeyRequest,
  account: Account,
  { subject, maker }: Counting,
): Generator<NewKey, never> {
  const problem = request.name === undefined ? undefined : keyNameProblem(request.name)
  if (problem !== undefined) throw new AccessError(`The key's name ${problem}.`)
  if (request.scopes.length === 0) {
    throw new AccessError('A key needs a scope. Give it one or more.')
  }
  const created = unixSeconds()
  const ownLimits = request.limits ?? {}
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const secret = request.secret ?? makeKey()
    const id = `key_${randomUUID().replaceAll('-', '')}`
    const key: Key = {
      id,
      account,
      prefix: keyPrefix(secret),
      name: request.name?.trim() ?? null,
      scopes: request.scopes,
      created,
      expires: request.expires ?? null,
      revoked: null,
      lastUsed: null,
      limits: lowerOf(ownLimits, maker?.limits),
      ownLimits,
      subject: subject ?? id,
      maker,
      models: request.models ?? null,
    }
    yield { key, secret }
    if (request.secret !== undefined) throw new AccessError('A key with this prefix exists. Preset another key.')
  }
  throw new AccessError('No unused prefix was found for the key. Try again.')
}
