import type { IncomingHttpHeaders } from 'node:http'
import type { Dispatcher } from 'undici'
import { type Clock, machineClock } from '../../clock.ts'
import { openOrigin } from '../../outbound.ts'
import { retryOnClosedConnection } from './reused-connections.ts'

/** Bytes of an answer that wait for their reader, beyond which reading from the upstream pauses. */
const maxBufferedBytes = 256 * 1024

/** An answer that its reader has finished must end within this time; otherwise its connection is not reused. */
const maxDrainMs = 1000

/** Loads the pool whose errors say whether a connection was reused. */
export const loadPool = async () => (await import('./pool.ts')).openPool

/** The connections to one upstream. Redirects are not followed. */
export class UpstreamConnections {
  readonly #origin: string
  readonly #connectTimeoutMs: number
  readonly #clock: Clock
  readonly #proxy: string | undefined
  #pool: Promise<Dispatcher> | undefined

  /**
   * @param connectTimeoutMs all other deadlines come with the caller's signal
   * @param clock measures how long an answer takes to end after its reader has finished
   * @param proxy the address of a proxy for the connections
   */
  constructor(origin: string, connectTimeoutMs: number, clock: Clock = machineClock, proxy?: string) {
    this.#origin = origin
    this.#connectTimeoutMs = connectTimeoutMs
    this.#clock = clock
    this.#proxy = proxy
  }

  /**
   * Sends a POST, and resolves when status and headers of the answer have come. Upstreams may close idle connections at any time: a
   * reused connection that turns out to be closed is replaced at once.
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

  /** Sends a GET in the same way. */
  get(path: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<UpstreamResponse> {
    return this.#send({ path, method: 'GET', headers }, signal)
  }

  async #send(request: Dispatcher.DispatchOptions, signal: AbortSignal): Promise<UpstreamResponse> {
    // The pool is loaded with the first request, so that a service without an upstream starts faster.
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

/** An upstream's answer for its reader. */
export interface UpstreamAnswer extends AsyncIterable<Buffer> {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Aborts the answer. */
  return(): Promise<unknown>
  /** The reader needs no more: the rest of the answer is read and dropped. */
  drain(): void
}

/** An upstream's answer as it arrives. It is undici's handler itself: a stream object in between would cost as much as the relay. */
export class UpstreamResponse implements Dispatcher.DispatchHandler, UpstreamAnswer {
  status = 0
  headers: IncomingHttpHeaders = {}
  readonly #signal: AbortSignal
  readonly #clock: Clock
  readonly #resolve: (response: UpstreamResponse) => void
  readonly #reject: (reason: unknown) => void
  #controller: Dispatcher.DispatchController | undefined
  #pieces: Buffer[] = []
  #size = 0
  #isEnded = false
  #failure: unknown
  #wake: (() => void) | undefined
  #isDraining = false
  readonly #onAbort = () => {
    // undici does not call the handler while it connects, so the promise is rejected here.
    this.#reject(this.#signal.reason)
    this.#controller?.abort(this.#signal.reason)
  }

  constructor(
    signal: AbortSignal,
    clock: Clock,
    resolve: (response: UpstreamResponse) => void,
    reject: (reason: unknown) => void,
  ) {
    this.#signal = signal
    this.#clock = clock
    this.#resolve = resolve
    this.#reject = reject
    signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#signal.aborted) this.#onAbort()
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return
    this.status = status
    this.headers = headers
    this.#resolve(this)
  }

  onResponseData(controller: Dispatcher.DispatchController, piece: Buffer): void {
    this.#pieces.push(piece)
    this.#size += piece.length
    if (this.#size > maxBufferedBytes) controller.pause()
    this.#wake?.()
  }

  onResponseEnd(): void {
    this.#isEnded = true
    this.#release()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#isEnded = true
    this.#failure = this.#signal.aborted ? this.#signal.reason : error
    this.#reject(this.#failure)
    this.#release()
  }

  /** The body as it arrives, with bytes that came together in one piece. A reader that stops early ends the request. */
  [Symbol.asyncIterator](): AsyncIterator<Buffer, undefined> {
    return this
  }

  // It is not a generator, which would be the most expensive part of an event's way.
  async next(): Promise<IteratorResult<Buffer, undefined>> {
    while (this.#pieces.length === 0) {
      if (this.#failure !== undefined) throw this.#failure
      if (this.#isEnded) return { done: true, value: undefined }
      await this.#nextPiece()
    }
    return { done: false, value: this.#take() }
  }

  async return(): Promise<IteratorResult<Buffer, undefined>> {
    if (!this.#isEnded) this.#end()
    return { done: true, value: undefined }
  }

  /** The reader needs no more: the rest of the answer is read and dropped, so that the connection can be reused. */
  drain(): void {
    if (this.#isEnded) return
    this.#isDraining = true
    this.#controller?.resume()
    const giveUp = this.#clock.setTimeout(
      () => this.#controller?.abort(new Error('the answer does not end')),
      maxDrainMs,
    )
    this.#wake = () => {
      this.#pieces = []
      if (this.#isEnded) giveUp.close()
    }
  }

  #end(): void {
    if (!this.#isDraining) this.#controller?.abort(new Error('the answer is no longer wanted'))
  }

  #take(): Buffer {
    const pieces = this.#pieces
    this.#pieces = []
    const isPaused = this.#size > maxBufferedBytes
    this.#size = 0
    // Resuming may deliver more data at once.
    if (isPaused) this.#controller?.resume()
    const [first] = pieces
    return pieces.length === 1 && first ? first : Buffer.concat(pieces)
  }

  #nextPiece(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }

  #release(): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#wake?.()
  }
}
