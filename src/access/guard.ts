import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Actor } from '../audit/record.ts'
import type { Clock } from '../clock.ts'
import { ApiError } from '../errors.ts'
import type { Limits } from '../limit-values.ts'
import { networkOf } from '../networks.ts'
import type { AccessStore, Key, Scope } from './access.ts'
import { FailedLogins } from './failed-logins.ts'
import { digestKey, isMistyped } from './key.ts'
import { KeyUses, KeyWatch } from './keys-in-use.ts'
import { changeLimitsOf } from './limits-in-force.ts'
import { refusalOf, unauthorized } from './refusals.ts'

/** How much of a limit per minute is left. */
export interface Allowance {
  readonly limit: number
  /** Whole requests or tokens that are left now. */
  readonly remaining: number
  /** Milliseconds until the whole limit is available again. */
  readonly resetMs: number
}

/** Reply headers by their names. */
export type Headers = Readonly<Record<string, string>>

/** Makes the reply headers of a group of routes from the requests that are left. */
export type RequestHeaders = (allowance: Allowance) => Headers

/** Counts the requests of each key: the part of the limits that the guard needs. */
export interface RequestCounter {
  /**
   * Counts one request of a key.
   * @param writeHeaders makes the headers of a refusal; by default OpenAI's headers
   * @returns how many requests are left; undefined if nothing limits the requests; a promise only if other replicas count too
   * @throws ApiError 429; 503 when other replicas count too and the database does not answer
   */
  admit(key: Key, writeHeaders?: RequestHeaders): Allowance | Promise<Allowance> | undefined
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The key of the request, once the guard has admitted it. */
    caller: Key | null
    /** How many requests the key has left; null if no limit applies to the requests of the key. */
    requestsLeft: Allowance | null
  }
}

/**
 * The last admission of a connection. `writeHeaders` identifies the group of routes: the groups read the `Authorization` header
 * differently.
 */
interface Admitted {
  readonly header: string | undefined
  readonly writeHeaders: RequestHeaders | undefined
  readonly digest: string
}

/** If a body takes longer than this to arrive, the key is checked again. `KeyWatch` checks the keys of streams as often. */
const recheckAfterMs = 250

/** Authenticates requests: finds the key of a credential, or refuses the request with a 401 that says what to change. */
export class Guard {
  readonly #store: AccessStore
  readonly #failures: FailedLogins
  readonly #uses: KeyUses
  readonly #watch: KeyWatch
  readonly #counter: RequestCounter | undefined
  readonly #admitted = new WeakMap<Socket, Admitted>()

  /**
   * @param counter counts the requests of each key; by default requests are not limited
   * @param clock the clock for the delays of failed logins
   */
  constructor(store: AccessStore, counter?: RequestCounter, clock?: Clock) {
    this.#store = store
    this.#failures = new FailedLogins(clock)
    this.#uses = new KeyUses(store)
    this.#watch = new KeyWatch(store)
    this.#counter = counter
  }

  /**
   * Admits a request whose `Authorization` header has the bare key, or `Bearer` and the key.
   * @throws ApiError 401 without a key or for an invalid key; 403, 429 and 503 as `admit`
   */
  readonly admitApiKey: onRequestHookHandler = (request, _reply, done) => {
    const again = this.admitAgain(request)
    if (again === true) done()
    else (again || this.#admitHeader(request)).then(() => done(), done)
  }

  async #admitHeader(request: FastifyRequest): Promise<void> {
    const header = request.headers.authorization?.trim() ?? ''
    const key = header.replace(/^bearer(\s+|$)/i, '')
    if (key === '') {
      throw unauthorized('missing_api_key', 'Send your API key in the header Authorization: Bearer YOUR_KEY.')
    }
    await this.admit(request, key)
  }

  /**
   * Admits a request with the same `Authorization` header as the last request of its connection. Without this
   * shortcut, parsing the header and digesting the key would take a tenth of the CPU time of a small request.
   * @param writeHeaders as for `admit`
   * @returns whether the request is admitted; a promise when the request must be counted in the database
   * @throws ApiError 401, 403, 429 and 503 as `admit`
   */
  admitAgain(request: FastifyRequest, writeHeaders?: RequestHeaders): boolean | Promise<true> {
    const last = this.#admitted.get(request.socket)
    if (!last || last.header !== request.headers.authorization || last.writeHeaders !== writeHeaders) return false
    const key = this.#store.knownKey(last.digest)
    if (!key) return false
    const waiting = this.#admitKey(request, key, writeHeaders)
    return waiting ? waiting.then(() => true) : true
  }

  /**
   * Admits a request with this key, and sets `request.caller`.
   * @param writeHeaders makes the headers of a 429; by default OpenAI's headers
   * @throws ApiError 401 for a mistyped, unknown, expired or revoked key, 403 when its account is suspended, 429 after too many
   *   wrong keys from the address, or when the key has no request left, 503 when PostgreSQL does not answer
   */
  async admit(request: FastifyRequest, secret: string, writeHeaders?: RequestHeaders): Promise<void> {
    const digest = digestKey(secret)
    const key = await this.#store.findKey(digest)
    if (!key) {
      await this.slowDown(request)
      const reason = isMistyped(secret)
        ? 'The key is mistyped or cut off. Paste it again.'
        : 'The key is not known to this service. Check it, or ask the operator for a key.'
      throw unauthorized('invalid_api_key', reason)
    }
    await this.#admitKey(request, key, writeHeaders)
    this.#admitted.set(request.socket, { header: request.headers.authorization, writeHeaders, digest })
  }

  /**
   * Resolves when the refusal of an unknown secret may be sent, so that nobody guesses secrets fast.
   * @throws ApiError 429 after too many wrong secrets from the address
   */
  slowDown({ from }: FastifyRequest): Promise<void> {
    return this.#failures.slow(networkOf(from))
  }

  /** @returns a promise when the request must be counted in the database, which the replicas share */
  #admitKey(request: FastifyRequest, key: Key, writeHeaders?: RequestHeaders): Promise<void> | undefined {
    const refusal = refusalOf(key)
    if (refusal) throw refusal.status === 401 ? unauthorized('invalid_api_key', refusal.message) : refusal
    this.#uses.note(key.id)
    request.caller = key
    request.facts['key'] = key.prefix
    const left = this.#counter?.admit(key, writeHeaders) ?? null
    if (left instanceof Promise) {
      return left.then((allowance) => {
        request.requestsLeft = allowance
      })
    }
    request.requestsLeft = left
    return undefined
  }

  /**
   * Reads the key of a request again, so that the rest of the request has the key's current permissions.
   * @throws ApiError 401 when the key has ended meanwhile, 403 when its account is suspended
   */
  readonly recheck = async (request: FastifyRequest): Promise<void> => {
    if (!request.caller) return
    const key = await this.#store.findKeyById(request.caller.id)
    const refusal = refusalOf(key)
    if (refusal) throw refusal
    request.caller = key ?? null
  }

  /**
   * Aborts the controller soon after the request's key has ended, with the `ApiError` of the reason.
   * @returns a function to call when the request is over
   */
  watch(request: FastifyRequest, controller: AbortController): () => void {
    return this.#watch.add(callerOf(request), controller)
  }

  /** Writes the last uses of keys. To be called before keys are shown, and before the database is closed. */
  async settle(): Promise<void> {
    await this.#uses.flush()
  }
}

/** Adds the request properties of a guard, and a hook that refuses a request whose key has ended while its body arrived. */
export function guardRequests(app: FastifyInstance, guard: Guard): void {
  app.decorateRequest('caller', null)
  app.decorateRequest('requestsLeft', null)
  app.addHook('preHandler', (request, reply, done) => {
    if (request.body === undefined || reply.elapsedTime < recheckAfterMs) done()
    else guard.recheck(request).then(() => done(), done)
  })
}

/** Makes a hook that refuses a request whose key has none of these scopes, with a 403 that names the scopes. */
export function requireScope(...anyOf: readonly Scope[]): onRequestHookHandler {
  const names = anyOf.map((scope) => `"${scope}"`).join(' or ')
  return (request, _reply, done) => {
    const { scopes } = callerOf(request)
    if (anyOf.some((scope) => scopes.includes(scope))) done()
    else done(new ApiError(403, 'missing_scope', `The key lacks the scope ${names}. Use a key with this scope.`))
  }
}

/** Makes a hook that runs after the hook of the guard, and sets the reply headers about the requests that are left. */
export function sendRequestsLeft(headersOf: RequestHeaders): onRequestHookHandler {
  return (request, reply, done) => {
    if (request.requestsLeft !== null) reply.headers(headersOf(request.requestsLeft))
    done()
  }
}

/** The key of a guarded request. @throws Error when the route has no guard */
export function callerOf(request: FastifyRequest): Key {
  if (request.caller === null) throw new Error('the route has no guard')
  return request.caller
}

/**
 * The caller of a request as the author of a change. The audit records of the change are written to the log too.
 * @param settings the default limits of accounts, from the setting `LIMITS`
 */
export function actorOf(request: FastifyRequest, settings: Limits): Actor {
  const caller = callerOf(request)
  const { prefix, account } = caller
  return {
    kind: 'key',
    key: prefix,
    account: account.name,
    from: request.from,
    changeLimits: changeLimitsOf(caller, settings),
    onRecord: (record) => request.log.info(record, 'audit record'),
  }
}
