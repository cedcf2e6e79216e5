import { AsyncLocalStorage } from 'node:async_hooks'
import type { RequestInfo, RequestInit, Response } from 'undici'
import { Outbound } from '../../outbound.ts'
import { noProxies, type Proxies } from '../../proxies.ts'
import { loadPool } from '../upstream/connections.ts'
import { retryOnClosedConnection } from '../upstream/reused-connections.ts'
import type { AnswerContext } from './bounded-answer.ts'

/** Brings the context of a model call to the `fetch` below. The package, which calls `fetch`, does not pass the context on. */
const answerContext = new AsyncLocalStorage<AnswerContext>()

/** Runs `ask`, which calls a package. The `fetch` of this package uses the context to bound the answer. */
export function withAnswerContext<T>(context: AnswerContext, ask: () => T): T {
  return answerContext.run(context, ask)
}

/** The `fetch` of a provider package, and its connections. A package reaches the network only through this `fetch`. */
export interface ProviderFetch {
  fetch(input: RequestInfo, init?: RequestInit): Promise<Response>
  close(): Promise<void>
}

/** Rules for the outgoing requests of a model. */
export interface FetchRules {
  /** Requests may go only to the origin of this URL; by default, to any origin. */
  readonly baseUrl?: string | undefined
  readonly connectTimeoutMs?: number | undefined
  readonly proxies?: Proxies
}

/**
 * Makes the `fetch` of one provider. This `fetch` follows no redirect, bounds the answers, and sends only POSTs, and only to the
 * origin of `baseUrl`. A request to a model is always a POST. With a GET, a package could download from an address in a caller's
 * request.
 */
export function createFetch({ baseUrl, connectTimeoutMs, proxies = noProxies }: FetchRules): ProviderFetch {
  const origin = baseUrl === undefined ? undefined : new URL(baseUrl).origin
  const outbound = new Outbound(proxies, connectTimeoutMs, loadPool)
  return {
    async fetch(input, init) {
      const url = new URL(typeof input === 'string' || input instanceof URL ? input : input.url)
      if (init?.method !== 'POST') throw new Error('Only POST requests go to a model.')
      if (origin !== undefined && url.origin !== origin) throw new Error('A model is asked at its base URL only.')
      const [{ fetch }, { boundedAnswer }] = await Promise.all([import('undici'), import('./bounded-answer.ts')])
      const dispatcher = await outbound.dispatcherFor(url)
      const ask = { ...init, redirect: 'manual' as const, dispatcher }
      const response = await retryOnClosedConnection(() => fetch(url, ask))
      return boundedAnswer(response, answerContext.getStore() ?? { isStream: false, openHeld: () => undefined })
    },
    close: () => outbound.close(),
  }
}
