import { type Signal, signal } from '@preact/signals'
import { Failure } from '../base/failure.ts'
import { identity } from '../base/session.ts'

/** A question that is asked again and again, with its newest answer. A new question ends the one before it. */
export class Asked<T> {
  /** What was answered last; a failure leaves it as it is. */
  readonly answer: Signal<T | undefined> = signal(undefined)
  /** Why the newest question has no answer. */
  readonly failure: Signal<Failure | undefined> = signal(undefined)
  readonly isWaiting = signal(false)
  #control = new AbortController()

  constructor() {
    // The answer belongs to one account: the next account in this tab must not see it.
    identity.subscribe(() => this.forget())
  }

  /** Asks, and keeps the answer or the failure. */
  async ask(question: (signal: AbortSignal) => Promise<T>): Promise<void> {
    this.#control.abort()
    const control = new AbortController()
    this.#control = control
    this.isWaiting.value = true
    try {
      const answer = await question(control.signal)
      if (control.signal.aborted) return
      this.answer.value = answer
      this.failure.value = undefined
    } catch (error) {
      if (control.signal.aborted) return
      this.failure.value = Failure.of(error)
    }
    this.isWaiting.value = false
  }

  /** Ends the question, and forgets the answer. */
  forget(): void {
    this.#control.abort()
    this.answer.value = undefined
    this.failure.value = undefined
    this.isWaiting.value = false
  }
}
