import type { Dispatcher, Pool } from 'undici'
import type { Proxies } from './proxies.ts'

/** The default connect timeout. */
export const defaultConnectTimeoutMs = 10_000

/** Turns off undici's other time limits, because callers limit the time with a signal. */
const noTimeouts = { headersTimeout: 0, bodyTimeout: 0 }

/** Opens direct connections to one origin. */
export type OpenPool = (origin: string | URL, options: Pool.Options) => Dispatcher

/**
 * Opens the connections to one origin.
 * @param proxy the URL of the proxy; undefined for direct connections
 * @param openPool makes the function that opens direct connections
 */
export async function openOrigin(
  origin: string,
  proxy: string | undefined,
  connectTimeoutMs: number,
  openPool: () => Promise<OpenPool>,
): Promise<Dispatcher> {
  if (proxy !== undefined) return openProxy(proxy, connectTimeoutMs)
  const open = await openPool()
  return open(origin, { connect: { timeout: connectTimeoutMs }, ...noTimeouts })
}

/** Requests to https origins go through a tunnel (`CONNECT`). Requests to http origins are sent to the proxy itself. */
async function openProxy(proxy: string, connectTimeoutMs: number): Promise<Dispatcher> {
  const { Pool, ProxyAgent } = await import('undici')
  return new ProxyAgent({
    uri: proxy,
    connectTimeout: connectTimeoutMs,
    ...noTimeouts,
    // Without this factory, the connections to the proxy would have undici's own time limits.
    factory: (origin, options) => new Pool(origin, { ...options, ...noTimeouts }),
  })
}

/** Connections to any origin, direct or through a proxy. */
export class Outbound {
  readonly #proxies: Proxies
  readonly #connectTimeoutMs: number
  readonly #openPool: (() => Promise<OpenPool>) | undefined
  /** Dispatchers by the proxy's URL; the empty string stands for direct connections. */
  readonly #opened = new Map<string, Promise<Dispatcher>>()

  /**
   * @param openPool makes the function that opens direct connections; by default undici's agent opens them
   */
  constructor(proxies: Proxies, connectTimeoutMs = defaultConnectTimeoutMs, openPool?: () => Promise<OpenPool>) {
    this.#proxies = proxies
    this.#connectTimeoutMs = connectTimeoutMs
    this.#openPool = openPool
  }

  /** The dispatcher with which undici's `fetch` gets this URL. */
  dispatcherFor(url: URL): Promise<Dispatcher> {
    const proxy = this.#proxies.of(url) ?? ''
    let dispatcher = this.#opened.get(proxy)
    if (!dispatcher) {
      dispatcher =
        proxy === '' ? openAgent(this.#connectTimeoutMs, this.#openPool) : openProxy(proxy, this.#connectTimeoutMs)
      this.#opened.set(proxy, dispatcher)
    }
    return dispatcher
  }

  /** Waits for the requests in flight, then closes all connections. */
  async close(): Promise<void> {
    await Promise.all([...this.#opened.values()].map(async (dispatcher) => (await dispatcher).close()))
  }
}

async function openAgent(connectTimeoutMs: number, openPool?: () => Promise<OpenPool>): Promise<Dispatcher> {
  const { Agent } = await import('undici')
  const factory = await openPool?.()
  return new Agent({ connect: { timeout: connectTimeoutMs }, ...noTimeouts, ...(factory ? { factory } : {}) })
}
