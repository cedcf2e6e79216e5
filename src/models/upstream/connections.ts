import type { Dispatcher } from 'undici'
import { type Clock, machineClock } from '../../clock.ts'
import { openOrigin } from '../../outbound.ts'
import { retryOnClosedConnection } from './reused-connections.ts'
import { UpstreamResponse } from './streamless-response.ts'

/** Loads `openPool`. The connections of this pool record the errors that `retryOnClosedConnection` recognizes. */
export const loadPool = async () => (await import('./pool.ts')).openPool

/** The connections to one upstream. Redirects are not followed. */
export class UpstreamConnections {
  readonly #origin: string
  readonly #connectTimeoutMs: number
  readonly #clock: Clock
  readonly #proxy: string | undefined
  #pool: Promise<Dispatcher> | undefined

  /**
   * @param connectTimeoutMs how long connecting may take; the caller's signal aborts at all other deadlines
   * @param clock measures how long an answer takes to end after its reader has finished
   * @param proxy the address of a proxy; undefined for direct connections
   */
  constructor(origin: string, connectTimeoutMs: number, clock: Clock = machineClock, proxy?: string) {
    this.#origin = origin
    this.#connectTimeoutMs = connectTimeoutMs
    this.#clock = clock
    this.#proxy = proxy
  }

  /**
   * Sends a POST, and resolves when the status and the headers of the answer have arrived. If a reused direct connection turns
   * out to be closed, the request is sent again immediately, because upstreams may close idle connections at any time.
   * @throws undici's errors, and the signal's reason
   */
  post(
    path: string,
    headers: Readonly<Record<string, string>>,
    body: Buffer,
    signal: AbortSignal,
  ): Promise<UpstreamResponse> {
    return this.#send({ path, method: 'POST', headers, body }, signal)
  }

  /** Sends a GET, and resolves and retries as `post` does. */
  get(path: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<UpstreamResponse> {
    return this.#send({ path, method: 'GET', headers }, signal)
  }

  async #send(request: Dispatcher.DispatchOptions, signal: AbortSignal): Promise<UpstreamResponse> {
    // The pool is opened with the first request. After a failure to open it, the next request tries again.
    this.#pool ??= openOrigin(this.#origin, this.#proxy, this.#connectTimeoutMs, loadPool).catch((error: unknown) => {
      this.#pool = undefined
      throw error
    })
    const pool = await this.#pool
    return retryOnClosedConnection(
      () =>
        new Promise<UpstreamResponse>((resolve, reject) => {
          signal.throwIfAborted()
          const response = new UpstreamResponse(signal, this.#clock, resolve, reject)
          pool.dispatch({ origin: this.#origin, ...request }, response)
        }),
    )
  }

  /** Waits for requests in flight, then closes the connections. */
  async close(): Promise<void> {
    await (await this.#pool)?.close()
  }
}
