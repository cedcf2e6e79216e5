import { AsyncLocalStorage } from 'node:async_hooks'
import { type Dispatcher, Headers, type RequestInfo, type RequestInit, Response } from 'undici'
import { ApiError } from '../../errors.ts'
import { Outbound } from '../../outbound.ts'
import { noProxies, type Proxies } from '../../proxies.ts'
import { loadPool, sendTo } from '../upstream/connections.ts'
import { decompressed } from '../upstream/decompressed.ts'
import type { UpstreamAnswer } from '../upstream/streamless-response.ts'
import { boundedAnswer, type CallContext } from './bounded-answer.ts'

/** Brings the context of a model call to the `fetch` below. The package, which calls `fetch`, does not pass the context on. */
const callContext = new AsyncLocalStorage<CallContext | undefined>()

/** Runs `ask`, which calls a package. The `fetch` of this package uses the context to send the request and to bound the answer. */
export function withCallContext<T>(context: CallContext, ask: () => T): T {
  return callContext.run(context, ask)
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
      const context: CallContext = callContext.getStore() ?? { isStream: false, openHeld: undefined }
      const [sent, dispatcher] = await Promise.all([sentBy(url, init), outbound.dispatcherFor(url)])
      // A connection keeps the context in which it was opened. The context of a call has the prompt, so connections are opened
      // without it.
      const answer = callContext.run(undefined, () => answerTo(sent, dispatcher, init.signal ?? never, context.onSent))
      return boundedAnswer(await answer, context)
    },
    close: () => outbound.close(),
  }
}

/** The signal of a request without a signal. */
const never = new AbortController().signal

/** The request that a package hands to its `fetch`, with the encoded body. */
async function sentBy(url: URL, init: RequestInit): Promise<Dispatcher.DispatchOptions> {
  const headers = new Headers(init.headers)
  let body: Buffer
  if (typeof init.body === 'string') body = Buffer.from(init.body)
  else {
    // No known package sends another body than JSON to a model. `Response` makes a form's bytes and content type.
    const other = new Response(init.body ?? null)
    const type = other.headers.get('content-type')
    if (type !== null && !headers.has('content-type')) headers.set('content-type', type)
    body = Buffer.from(await other.arrayBuffer())
  }
  return {
    origin: url.origin,
    path: `${url.pathname}${url.search}`,
    method: 'POST',
    headers: Object.fromEntries(headers),
    body,
  }
}

/**
 * Sends a request. undici's own `fetch` would copy the body twice.
 * @throws TypeError if the network fails, with the network's error as its cause: packages recognize this error of `fetch`
 */
async function answerTo(
  sent: Dispatcher.DispatchOptions,
  dispatcher: Dispatcher,
  signal: AbortSignal,
  onSent: CallContext['onSent'],
): Promise<UpstreamAnswer> {
  try {
    return decompressed(await sendTo(dispatcher, sent, signal, undefined, onSent))
  } catch (error) {
    if (signal.aborted || error instanceof ApiError) throw error
    throw new TypeError('fetch failed', { cause: error })
  }
}
