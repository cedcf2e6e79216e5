import type { Dispatcher, Pool } from 'undici'
import type { Proxies } from './proxies.ts'

/** Milliseconds to be connected to, where nothing says otherwise. */
export const defaultConnectTimeoutMs = 10_000

/** Every other time limit is that of whoever asks, by a signal. */
const noTimeouts = { headersTimeout: 0, bodyTimeout: 0 }

/** Opens straight connections to one origin. */
export type OpenPool = (origin: string | URL, options: Pool.Options) => Dispatcher

/**
 * Opens the connections to one origin.
 * @param proxy the address of the proxy that they go through; straight without it
 * @param connectTimeout milliseconds
 * @param openPool opens them where there is no proxy
 */
export async function openOrigin(
  origin: string,
  proxy: string | undefined,
  connectTimeout: number,
  openPool: () => Promise<OpenPool>,
): Promise<Dispatcher> {
  if (proxy !== undefined) return openProxy(proxy, connectTimeout)
  const open = await openPool()
  return open(origin, { connect: { timeout: connectTimeout }, ...noTimeouts })
}

/** Requests to https origins go through a tunnel (`CONNECT`), those to others as requests to the proxy. */
async function openProxy(proxy: string, connectTimeout: number): Promise<Dispatcher> {
  const { Pool, ProxyAgent } = await import('undici')
  return new ProxyAgent({
    uri: proxy,
    connectTimeout,
    ...noTimeouts,
    // The connections to the proxy itself would have undici's own time limits.
    factory: (origin, options) => new Pool(origin, { ...options, ...noTimeouts }),
  })
}

/** The connections to whatever origins are asked, straight or through their proxies. */
export class Outbound {
  readonly #proxies: Proxies
  readonly #connectTimeout: number
  readonly #openPool: (() => Promise<OpenPool>) | undefined
  /** By the proxy; empty for those without one. */
  readonly #opened = new Map<string, Promise<Dispatcher>>()

  /**
   * @param connectTimeout milliseconds
   * @param openPool opens the connections that go straight; undici's own without it
   */
  constructor(proxies: Proxies, connectTimeout = defaultConnectTimeoutMs, openPool?: () => Promise<OpenPool>) {
    this.#proxies = proxies
    this.#connectTimeout = connectTimeout
    this.#openPool = openPool
  }

  /** What undici's `fetch` is given for a request to this address. */
  dispatcherFor(url: URL): Promise<Dispatcher> {
    const proxy = this.#proxies.of(url) ?? ''
    let dispatcher = this.#opened.get(proxy)
    if (!dispatcher) {
      dispatcher =
        proxy === '' ? openAgent(this.#connectTimeout, this.#openPool) : openProxy(proxy, this.#connectTimeout)
      this.#opened.set(proxy, dispatcher)
    }
    return dispatcher
  }

  /** Lets what is under way end, then closes. */
  async close(): Promise<void> {
    await Promise.all([...this.#opened.values()].map(async (dispatcher) => (await dispatcher).close()))
  }
}

async function openAgent(connectTimeout: number, openPool?: () => Promise<OpenPool>): Promise<Dispatcher> {
  const { Agent } = await import('undici')
  const factory = await openPool?.()
  return new Agent({ connect: { timeout: connectTimeout }, ...noTimeouts, ...(factory ? { factory } : {}) })
}
