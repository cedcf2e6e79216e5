import { type Signal, signal } from '@preact/signals'
import { Failure } from '../base/failure.ts'
import { identity } from '../base/session.ts'

/** A request that is sent repeatedly, with its newest answer. A new request aborts the previous one. */
export class LatestRequest<T> {
  /** The last answer. It stays when a later request fails. */
  readonly answer: Signal<T | undefined> = signal(undefined)
  /** The failure of the newest request. */
  readonly failure: Signal<Failure | undefined> = signal(undefined)
  readonly isWaiting = signal(false)
  #control = new AbortController()

  constructor() {
    // The answer belongs to one account: the next account in this tab must not see it.
    identity.subscribe(() => this.forget())
  }

  /** Sends the request, and keeps the answer or the failure. */
  async ask(send: (signal: AbortSignal) => Promise<T>): Promise<void> {
    this.#control.abort()
    const control = new AbortController()
    this.#control = control
    this.isWaiting.value = true
    try {
      const answer = await send(control.signal)
      if (control.signal.aborted) return
      this.answer.value = answer
      this.failure.value = undefined
    } catch (error) {
      if (control.signal.aborted) return
      this.failure.value = Failure.of(error)
    }
    this.isWaiting.value = false
  }

  /** Aborts the request, and forgets the answer. */
  forget(): void {
    this.#control.abort()
    this.answer.value = undefined
    this.failure.value = undefined
    this.isWaiting.value = false
  }
}
