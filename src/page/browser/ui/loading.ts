import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { Failure } from '../base/failure.ts'

/** Something that is asked of the service: on its way, here, or not to be had. */
export interface Loading<T> {
  readonly value?: T
  readonly failure?: Failure
  /** Asks once more. */
  readonly again: () => void
}

/**
 * Loads something while a component is shown.
 * @param load its signal is aborted when nobody waits any more
 * @param inputs what it depends on: it is loaded anew when one of these changes
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

/** Says that something loads, or why it could not be loaded, with a way to go on. */
export function Waiting({ loading, what }: { readonly loading: Loading<unknown>; readonly what: string }): VNode {
  if (!loading.failure) return html`<p class="waiting" role="status">Loading ${what} …</p>`
  return html`
    <div class="fault" role="alert">
      <p>${loading.failure.message}</p>
      <p><button type="button" onClick=${loading.again}>Try again</button></p>
    </div>
  `
}
