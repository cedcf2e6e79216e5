import type { Dispatcher } from 'undici'
import { type Clock, machineClock } from '../../clock.ts'
import { field } from '../../fields.ts'
import { openOrigin } from '../../outbound.ts'
import { UpstreamResponse } from './streamless-response.ts'

/** Error codes of a connection that the other side has closed. */
const closedCodes: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** The errors of reused connections that broke, but not of connections to proxies. */
const errorsOfReusedConnections = new WeakSet<Error>()

/** The most retries of one request: several idle connections may be closed, but the retries must end. */
const maxReplacements = 5

function wasReusedAndClosed(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const isOfReused = closedCodes.has(field(error, 'code')) && errorsOfReusedConnections.has(error)
  // An error of `fetch` has the network error as its cause.
  return isOfReused || wasReusedAndClosed(error.cause)
}

/** Loads a function that opens connections whose errors `sendTo` recognizes. */
export const loadPool = async () =>
  (await import('./pool.ts')).poolOpener((error) => void errorsOfReusedConnections.add(error))

/**
 * Sends a request, and resolves when the status and the headers of the answer have arrived. If a reused direct connection turns
 * out to be closed, the request is sent again immediately, because upstreams may close idle connections at any time.
 * @param clock measures how long an answer takes to end after its reader has finished
 * @param onSent called when the upstream has the whole request
 * @throws undici's errors, and the signal's reason
 */
export function sendTo(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  signal: AbortSignal,
  clock = machineClock,
  onSent?: () => void,
): Promise<UpstreamResponse> {
  return new Promise((resolve, reject) => {
    let left = maxReplacements
    const send = () => {
      try {
        signal.throwIfAborted()
        dispatcher.dispatch(request, new UpstreamResponse(signal, clock, resolve, failed, onSent))
      } catch (error) {
        reject(error)
      }
    }
    const failed = (error: unknown) => {
      // The pool tells only after this call that the connection was a reused one.
      queueMicrotask(() => {
        if (left-- > 0 && wasReusedAndClosed(error)) send()
        else reject(error)
      })
    }
    send()
  })
}

/** The connections to one upstream. Redirects are not followed. */
export class UpstreamConnections {
  readonly #origin: string
  readonly #connectTimeoutMs: number
  readonly #clock: Clock
  readonly #proxy: string | undefined
  #opening: Promise<Dispatcher> | undefined
  #pool: Dispatcher | undefined

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

  /** Sends a POST as `sendTo` does. */
  post(
    path: string,
    headers: Readonly<Record<string, string>>,
    body: Buffer,
    signal: AbortSignal,
    onSent?: () => void,
  ): Promise<UpstreamResponse> {
    return this.#send({ path, method: 'POST', headers, body }, signal, onSent)
  }

  /** Sends a GET as `sendTo` does. */
  get(path: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<UpstreamResponse> {
    return this.#send({ path, method: 'GET', headers }, signal)
  }

  #send(request: Dispatcher.DispatchOptions, signal: AbortSignal, onSent?: () => void): Promise<UpstreamResponse> {
    const send = (pool: Dispatcher) => sendTo(pool, { origin: this.#origin, ...request }, signal, this.#clock, onSent)
    return this.#pool ? send(this.#pool) : this.#open().then(send)
  }

  /** Opens the pool with the first request. After a failure to open it, the next request tries again. */
  #open(): Promise<Dispatcher> {
    this.#opening ??= openOrigin(this.#origin, this.#proxy, this.#connectTimeoutMs, loadPool).then(
      (pool) => {
        this.#pool = pool
        return pool
      },
      (error: unknown) => {
        this.#opening = undefined
        throw error
      },
    )
    return this.#opening
  }

  /** Waits for requests in flight, then closes the connections. */
  async close(): Promise<void> {
    await (await this.#opening)?.close()
  }
}
