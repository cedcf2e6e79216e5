import { AsyncLocalStorage } from 'node:async_hooks'
import type { RequestInfo, RequestInit, Response } from 'undici'
import { Outbound } from '../../outbound.ts'
import { noProxies, type Proxies } from '../../proxies.ts'
import { loadPool } from '../upstream/connections.ts'
import { retryOnClosedConnection } from '../upstream/reused-connections.ts'
import type { AnswerContext } from './bounded-answer.ts'

/** What the package is asked for that fetches: packages hand nothing of it on. */
const answerContext = new AsyncLocalStorage<AnswerContext>()

/** Asks a package, whose `fetch` bounds the answer as this says. */
export function withAnswerContext<T>(context: AnswerContext, ask: () => T): T {
  return answerContext.run(context, ask)
}

/** The only way by which a provider package gets to the network, and the connections behind it. */
export interface ProviderFetch {
  fetch(input: RequestInfo, init?: RequestInit): Promise<Response>
  close(): Promise<void>
}

/** What the outgoing requests of a model may do. */
export interface FetchRules {
  /** With it, every other origin is refused, whatever the package does. */
  readonly baseUrl?: string | undefined
  /** Milliseconds. */
  readonly connectTimeout?: number | undefined
  readonly proxies?: Proxies
}

/**
 * Makes the `fetch` of one provider: it never follows a redirect, it bounds what is answered, and it only posts. Asking a model is always a POST;
 * a GET would be a package downloading an address that a request named.
 */
export function createFetch({ baseUrl, connectTimeout, proxies = noProxies }: FetchRules): ProviderFetch {
  const origin = baseUrl === undefined ? undefined : new URL(baseUrl).origin
  const outbound = new Outbound(proxies, connectTimeout, loadPool)
  return {
    async fetch(input, init) {
      const url = new URL(typeof input === 'string' || input instanceof URL ? input : input.url)
      if (init?.method !== 'POST') throw new Error('Only POST requests go to a model.')
      if (origin !== undefined && url.origin !== origin) throw new Error('A model is asked at its base URL only.')
      // Loaded with the first request, so that a service that asks no such model starts without it.
      const [{ fetch }, { boundedAnswer }] = await Promise.all([import('undici'), import('./bounded-answer.ts')])
      const dispatcher = await outbound.dispatcherFor(url)
      const ask = { ...init, redirect: 'manual' as const, dispatcher }
      const response = await retryOnClosedConnection(() => fetch(url, ask))
      return boundedAnswer(response, answerContext.getStore() ?? { isStream: false, openHeld: () => undefined })
    },
    close: () => outbound.close(),
  }
}
