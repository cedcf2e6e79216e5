import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Clock } from '../clock.ts'
import { ApiError } from '../errors.ts'
import { isRepeated } from '../http/unfit-request.ts'
import type { AccessStore, Key, Scope } from './access.ts'
import { FailedLogins } from './failed-logins.ts'
import { digestKey, isMistyped } from './key.ts'
import { KeyUses, KeyWatch } from './keys-in-use.ts'
import { refusalOf, unauthorized } from './refusals.ts'
import type { Allowance, RequestCounter, RequestHeaders } from './request-counter.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The key that the request came with, once its guard has let it pass. */
    caller: Key | null
    /** How many requests that key has left; null where nothing limits them. */
    requestsLeft: Allowance | null
  }
}

/** What a connection was let in with, and by which group, since each reads the header in its own way. */
interface Admitted {
  readonly header: string | undefined
  readonly tell: RequestHeaders | undefined
  readonly digest: string
}

/** Milliseconds that a body may take without the key being looked at again: as long as a stream may go on. */
const shortlyAfter = 250

/** Decides who calls: one credential in, the key behind it out, or a 401 that says what to change. */
export class Guard {
  readonly #store: AccessStore
  readonly #failures: FailedLogins
  readonly #uses: KeyUses
  readonly #watch: KeyWatch
  readonly #counter: RequestCounter | undefined
  readonly #admitted = new WeakMap<Socket, Admitted>()

  /**
   * @param counter counts the requests of each key; nothing does without it
   * @param clock tells how long failed logins wait
   */
  constructor(store: AccessStore, counter?: RequestCounter, clock?: Clock) {
    this.#store = store
    this.#failures = new FailedLogins(clock)
    this.#uses = new KeyUses(store)
    this.#watch = new KeyWatch(store)
    this.#counter = counter
  }

  /**
   * Lets in a request whose `Authorization` header holds the bare key, or `Bearer` and the key (spec, section 5.2).
   * @throws ApiError 400 for two such headers, 401 for none or a key that is not valid
   */
  readonly admitApiKey = async (request: FastifyRequest): Promise<void> => {
    if (await this.admitAgain(request)) return
    const header = request.headers.authorization?.trim() ?? ''
    const key = header.replace(/^bearer(\s+|$)/i, '')
    if (key === '') {
      throw unauthorized('missing_api_key', 'Send your API key in the header Authorization: Bearer YOUR_KEY.')
    }
    await this.admit(request, key)
  }

  /**
   * Lets in a request that comes with the same header as the last one of its connection, as most do: to read it and to
   * digest the key anew would cost a tenth of a small request.
   * @param tell as for `admit`
   * @returns whether it is let in; a promise where its limits must be asked for first
   * @throws ApiError 400 for two such headers: Node shows only the first, and a proxy may have judged the other; 401, 403 and 429
   *   as `admit`
   */
  admitAgain(request: FastifyRequest, tell?: RequestHeaders): boolean | Promise<true> {
    if (isRepeated(request.raw.rawHeaders, 'authorization')) {
      throw new ApiError(400, 'two_credentials', 'The request has two Authorization headers. Send exactly one.')
    }
    const last = this.#admitted.get(request.socket)
    if (!last || last.header !== request.headers.authorization || last.tell !== tell) return false
    const key = this.#store.knownKey(last.digest)
    if (!key) return false
    const waiting = this.#letIn(request, key, tell)
    return waiting ? waiting.then(() => true) : true
  }

  /**
   * Lets in a request with this key and notes on it who called.
   * @param tell writes how many requests are left where there are none; as OpenAI does without it
   * @throws ApiError 401 for a key that is mistyped, unknown, expired or revoked, 403 when its account is suspended,
   *   429 when too many wrong ones came from the address or the key has no request left
   */
  async admit(request: FastifyRequest, secret: string, tell?: RequestHeaders): Promise<void> {
    const digest = digestKey(secret)
    const key = await this.#store.findKey(digest)
    if (!key) {
      await this.#failures.slow(request.from)
      const reason = isMistyped(secret)
        ? 'The key is mistyped or cut off: its checksum is wrong. Paste it again.'
        : 'The key is not known here. Check it, or ask the operator for one.'
      throw unauthorized('invalid_api_key', reason)
    }
    await this.#letIn(request, key, tell)
    this.#admitted.set(request.socket, { header: request.headers.authorization, tell, digest })
  }

  /** @returns a promise where other replicas count the key's requests too */
  #letIn(request: FastifyRequest, key: Key, tell?: RequestHeaders): Promise<void> | undefined {
    const refusal = refusalOf(key)
    if (refusal) throw refusal.status === 401 ? unauthorized('invalid_api_key', refusal.message) : refusal
    this.#uses.note(key.id)
    request.caller = key
    request.facts['key'] = key.prefix
    const left = this.#counter?.admit(key, tell) ?? null
    if (left instanceof Promise) {
      return left.then((allowance) => {
        request.requestsLeft = allowance
      })
    }
    request.requestsLeft = left
    return undefined
  }

  /**
   * Looks at the key again of a request whose body took its time: what it may do from here on is what it may do now.
   * @throws ApiError when the key has ended meanwhile
   */
  readonly admitStill = async (request: FastifyRequest): Promise<void> => {
    if (!request.caller) return
    const key = await this.#store.findKeyById(request.caller.id)
    const refusal = refusalOf(key)
    if (refusal) throw refusal
    request.caller = key ?? null
  }

  /**
   * Aborts the controller soon after the request's key has ended, with the `ApiError` that says why.
   * @returns what to call when the request is over
   */
  watch(request: FastifyRequest, controller: AbortController): () => void {
    return this.#watch.add(callerOf(request), controller)
  }

  /** Writes down which keys were used, as before they are listed or the database is closed. */
  async settle(): Promise<void> {
    await this.#uses.flush()
  }
}

/** Gives requests what a guard notes on them, and lets none go on whose key ended while its body was on its way. */
export function guardRequests(app: FastifyInstance, guard: Guard): void {
  app.decorateRequest('caller', null)
  app.decorateRequest('requestsLeft', null)
  app.addHook('preHandler', (request, reply, done) => {
    if (request.body === undefined || reply.elapsedTime < shortlyAfter) done()
    else guard.admitStill(request).then(() => done(), done)
  })
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

/** Gives a hook, for after the guard's, that tells the caller how many requests are left. */
export function tellRequestsLeft(tell: RequestHeaders): onRequestHookHandler {
  return (request, reply, done) => {
    if (request.requestsLeft !== null) reply.headers(tell(request.requestsLeft))
    done()
  }
}

/** The key that a guarded request came with. A missing one is a fault of ours: the route has no guard. */
export function callerOf(request: FastifyRequest): Key {
  if (request.caller === null) throw new Error('the route has no guard')
  return request.caller
}
