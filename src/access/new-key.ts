import { randomUUID } from 'node:crypto'
import { unixSeconds } from '../time.ts'
import { AccessError, type Account, type Key, type KeyRequest, keyNameProblem, type NewKey } from './access.ts'
import { keyPrefix, makeKey } from './key.ts'

/** How many random keys are tried to find an unused prefix. */
const maxAttempts = 100

/**
 * Yields keys with random secrets, until the caller finds a key with an unused prefix: prefixes identify keys on the command
 * line. A preset secret is yielded only once.
 * @throws AccessError for an invalid request, and when no further key can be made
 */
export function* newKeys(request: KeyRequest, account: Account): Generator<NewKey, never> {
  const problem = request.name === undefined ? undefined : keyNameProblem(request.name)
  if (problem !== undefined) throw new AccessError(`The key's name ${problem}.`)
  if (request.scopes.length === 0) {
    throw new AccessError('A key needs a scope. Give it one or more.')
  }
  const created = unixSeconds()
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const secret = request.secret ?? makeKey()
    const key: Key = {
      id: `key_${randomUUID().replaceAll('-', '')}`,
      account,
      prefix: keyPrefix(secret),
      name: request.name?.trim() ?? null,
      scopes: request.scopes,
      created,
      expires: request.expires ?? null,
      revoked: null,
      lastUsed: null,
      limits: request.limits ?? {},
      models: request.models ?? null,
    }
    yield { key, secret }
    if (request.secret !== undefined) throw new AccessError('A key with this prefix exists. Preset another key.')
  }
  throw new AccessError('No unused prefix was found for the key. Try again.')
}
