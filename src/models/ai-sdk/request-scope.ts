import { ApiError, clientGone } from '../../errors.ts'
import type { HeldBytes } from '../../http/bytes-in-flight.ts'
import { failureOf } from '../upstream/errors.ts'
import type { StreamPart } from './language-model.ts'

/** The lifetime of one request. All work of the request ends when the caller's signal aborts, or when the scope is disposed. */
export class RequestScope implements Disposable {
  readonly #caller: AbortSignal
  readonly #own = new AbortController()
  readonly signal: AbortSignal
  readonly #held: HeldBytes[] = []

  constructor(caller: AbortSignal) {
    this.#caller = caller
    this.signal = AbortSignal.any([caller, this.#own.signal])
  }

  /** Waits for the promise, or until the request ends: some packages ignore the signal. */
  async untilAborted<T>(promise: PromiseLike<T>): Promise<T> {
    const { signal } = this
    let stop = () => {}
    const aborted = new Promise<never>((_, reject) => {
      stop = () => reject(signal.reason)
      if (signal.aborted) stop()
      else signal.addEventListener('abort', stop, { once: true })
    })
    try {
      return await Promise.race([promise, aborted])
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }

  /** Holds bytes until the request ends. */
  hold(held: HeldBytes | undefined): HeldBytes | undefined {
    // A package that ignores the signal may go on after the request has ended. A new count is then released, and stays at 0.
    if (this.#own.signal.aborted) held?.release()
    else if (held) this.#held.push(held)
    return held
  }

  /** Passes a stream's parts to `take` until the request ends, and awaits each promise that `take` returns. */
  async read(stream: ReadableStream<StreamPart>, take: (part: StreamPart) => Promise<void> | undefined): Promise<void> {
    const reader = stream.getReader()
    const stop = () => {
      reader.cancel(this.signal.reason).catch(() => {})
    }
    // A package that ignores the signal may begin a stream after the request has ended.
    if (this.signal.aborted) stop()
    else this.signal.addEventListener('abort', stop, { once: true })
    try {
      for (let step = await reader.read(); !step.done; step = await reader.read()) {
        const room = take(step.value)
        if (room) await room
      }
      this.signal.throwIfAborted()
    } finally {
      this.signal.removeEventListener('abort', stop)
      stop()
    }
  }

  /**
   * Converts a thrown error. After an abort by the caller, the result depends only on the reason of the abort: an `ApiError` is
   * the result itself, a `TimeoutError` becomes a 504, and any other reason becomes the 499 `client_gone`.
   */
  toApiError(error: unknown, failure: (error: unknown) => ApiError): ApiError {
    if (!this.#caller.aborted) return failure(error)
    const reason: unknown = this.#caller.reason
    const isKnown = reason instanceof ApiError || (reason instanceof Error && reason.name === 'TimeoutError')
    return isKnown ? failureOf(reason) : clientGone()
  }

  [Symbol.dispose](): void {
    this.#own.abort()
    for (const held of this.#held.splice(0)) held.release()
  }
}
