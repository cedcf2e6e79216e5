import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { Failure } from '../base/failure.ts'

/** The state of a request to the service. A running request has neither a value nor a failure. */
export interface Loading<T> {
  readonly value?: T
  readonly failure?: Failure
  /** Sends the request again. */
  readonly again: () => void
}

/**
 * Loads a value while a component is shown.
 * @param load sends the request. The signal aborts when the component is removed
 * @param inputs when one of these values changes, `load` is called again
 */
export function useLoading<T>(load: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]): Loading<T> {
  const state = useSignal<Omit<Loading<T>, 'again'>>({})
  const round = useSignal(0)
  useEffect(() => {
    const leaving = new AbortController()
    const { signal } = leaving
    const note = (next: Omit<Loading<T>, 'again'>) => {
      if (!signal.aborted) state.value = next
    }
    note({})
    load(signal).then(
      (value) => note({ value }),
      (error: unknown) => note({ failure: Failure.of(error) }),
    )
    return () => leaving.abort()
  }, [...inputs, round.value])
  return { ...state.value, again: () => (round.value += 1) }
}

/** Shows that a value is being loaded. If loading has failed, shows the reason and a button to try again. */
export function Waiting({ loading, what }: { readonly loading: Loading<unknown>; readonly what: string }): VNode {
  if (!loading.failure) return html`<p class="waiting" role="status">Loading ${what} …</p>`
  return html`
    <div class="fault" role="alert">
      <p>${loading.failure.message}</p>
      <p><button type="button" onClick=${loading.again}>Try again</button></p>
    </div>
  `
}
