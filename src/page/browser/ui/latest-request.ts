import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { Failure } from '../base/failure.ts'
import { identity, ofAccount } from '../base/session.ts'
import { DisappearingButton } from './disappearing-button.ts'

/** A request of the account that is sent repeatedly, with its newest answer. A new request aborts the previous one. */
export class LatestRequest<T> {
  /** The last answer. It stays when a later request fails. */
  readonly answer = ofAccount<T | undefined>(undefined)
  /** The failure of the newest request. */
  readonly failure = ofAccount<Failure | undefined>(undefined)
  readonly isWaiting = ofAccount(false)
  #control = new AbortController()

  constructor() {
    identity.subscribe((who) => {
      if (who === null) this.#control.abort()
    })
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

/** The reason why a request has failed, with a button that sends the request again. */
export function Fault({ of: { failure, isWaiting }, within, again }: FaultProps): VNode | null {
  if (!failure.value) return null
  return html`<p class="fault" role="alert">${failure.value.message} <${DisappearingButton} within=${within} onClick=${again} isBusy=${isWaiting.value}>Try again<//></p>`
}

interface FaultProps {
  readonly of: LatestRequest<unknown>
  readonly within: 'part' | 'dialog'
  readonly again: () => void
}
