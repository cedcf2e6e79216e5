import type { Agent, RequestInfo, RequestInit, Response } from 'undici'

/** How long an upstream may take to be connected to, where its settings do not say. Milliseconds. */
const standardConnectTimeout = 10_000
/** Bytes of an answer, which may be a long stream. */
const maximumResponse = 64 * 1024 ** 2

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
}

/**
 * Makes the `fetch` of one provider: it never follows a redirect, and it only posts. Asking a model is always a POST;
 * a GET would be a package downloading an address that a request named.
 */
export function createFetch({ baseUrl, connectTimeout }: FetchRules): ProviderFetch {
  const origin = baseUrl === undefined ? undefined : new URL(baseUrl).origin
  let agent: Agent | undefined
  return {
    async fetch(input, init) {
      const url = new URL(typeof input === 'string' || input instanceof URL ? input : input.url)
      if (init?.method !== 'POST') throw new Error('Only POST requests go to a model.')
      if (origin !== undefined && url.origin !== origin) throw new Error('A model is asked at its base URL only.')
      // Loaded with the first request, so that a service that asks no such model starts without it.
      const { Agent, fetch } = await import('undici')
      agent ??= new Agent({
        connect: { timeout: connectTimeout ?? standardConnectTimeout },
        // Every other time limit is the caller's, by its signal.
        headersTimeout: 0,
        bodyTimeout: 0,
        maxResponseSize: maximumResponse,
      })
      return fetch(url, { ...init, redirect: 'manual', dispatcher: agent })
    },
    async close() {
      await agent?.close()
    },
  }
}
