import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import { ApiError } from '../errors.ts'
import type { AccessStore, Key, Scope } from './access.ts'
import { digestKey, isMistyped } from './key.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The key that the request came with, once its guard has let it pass. */
    caller: Key | null
  }
}

/** Decides who calls: one credential in, the key behind it out, or a 401 that says what to change. */
export class Guard {
  readonly #store: AccessStore

  constructor(store: AccessStore) {
    this.#store = store
  }

  /**
   * Lets in a request whose `Authorization` header holds the bare key, or `Bearer` and the key (spec, section 5.2).
   * @throws ApiError 400 for two such headers, 401 for none or a key that is not valid
   */
  async admitApiKey(request: FastifyRequest): Promise<void> {
    refuseTwoCredentials(request)
    const header = request.headers.authorization?.trim() ?? ''
    const key = header.replace(/^bearer(\s+|$)/i, '')
    if (key === '') {
      throw unauthorized('missing_api_key', 'Send your API key in the header Authorization: Bearer YOUR_KEY.')
    }
    await this.admit(request, key)
  }

  /**
   * Lets in a request with this key and notes on it who called.
   * @throws ApiError 401 for a key that is mistyped, unknown, expired or revoked
   */
  async admit(request: FastifyRequest, secret: string): Promise<void> {
    const key = await this.#store.findKey(digestKey(secret))
    if (!key) {
      const reason = isMistyped(secret)
        ? 'The key is mistyped or cut off: its checksum is wrong. Paste it again.'
        : 'The key is not known here. Check it, or ask the operator for one.'
      throw unauthorized('invalid_api_key', reason)
    }
    if (key.revoked !== null) throw unauthorized('invalid_api_key', 'The key has been revoked. Ask for a new one.')
    if (key.expires !== null && key.expires * 1000 <= Date.now()) {
      throw unauthorized('invalid_api_key', 'The key has expired. Ask for a new one.')
    }
    request.caller = key
  }
}

/**
 * Gives a hook that lets a request pass only when its key has the scope, or one of several that will do.
 * @throws ApiError 403 that names the missing scope
 */
export function requireScope(...anyOf: readonly Scope[]): onRequestHookHandler {
  const names = anyOf.map((scope) => `"${scope}"`).join(' or ')
  return (request, _reply, done) => {
    const { scopes } = callerOf(request)
    if (anyOf.some((scope) => scopes.includes(scope))) done()
    else done(new ApiError(403, 'missing_scope', `The key lacks the scope ${names}. Use one that has it.`))
  }
}

/** The key that a guarded request came with. A missing one is a fault of ours: the route has no guard. */
export function callerOf(request: FastifyRequest): Key {
  if (request.caller === null) throw new Error('the route has no guard')
  return request.caller
}

/** A 401 with the challenge that RFC 9110 (section 11.6.1) asks for. */
export function unauthorized(code: string, message: string): ApiError {
  return new ApiError(401, code, message, { headers: { 'www-authenticate': 'Bearer' } })
}

/**
 * Node shows only the first of two Authorization headers, and a proxy may have judged the other: refuse both.
 * @throws ApiError 400
 */
export function refuseTwoCredentials(request: FastifyRequest): void {
  let count = 0
  const headers = request.raw.rawHeaders
  for (let index = 0; index < headers.length; index += 2) {
    if (headers[index]?.toLowerCase() === 'authorization') count++
  }
  if (count > 1) {
    throw new ApiError(400, 'two_credentials', 'The request has two Authorization headers. Send exactly one.')
  }
}
