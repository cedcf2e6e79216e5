import { signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { ComponentType, VNode } from 'preact'
import { Failure } from '../base/failure.ts'

/** A view whose module is loaded when it is first shown. */
export interface LoadedView {
  /** No other view has it. */
  readonly name: string
  readonly load: () => Promise<{ readonly View: ComponentType }>
}

/** Modules of views that were shown, and failures to load one. */
const loaded = signal<ReadonlyMap<string, ComponentType | Failure>>(new Map())

/** A view, once its module is here. */
export function Loaded({ view: entry }: { readonly view: LoadedView }): VNode {
  const view = loaded.value.get(entry.name)
  if (view === undefined) {
    void load(entry)
    return html`<p class="waiting" role="status">Loading …</p>`
  }
  if (view instanceof Failure) {
    // To import it once more is of no use: browsers remember that a module could not be had, until the page is loaded anew.
    return html`
      <div class="waiting" role="alert">
        <p>${view.message}</p>
        <p><button type="button" onClick=${() => location.reload()}>Reload the page</button></p>
      </div>
    `
  }
  return html`<${view} />`
}

async function load({ name, load: fetchModule }: LoadedView): Promise<void> {
  try {
    note(name, (await fetchModule()).View)
  } catch {
    const message =
      'This part of the page could not be loaded: the service does not answer, or it has a newer page. You stay signed in when you reload it.'
    note(name, new Failure(0, 'not_loaded', message))
  }
}

function note(name: string, view: ComponentType | Failure): void {
  loaded.value = new Map(loaded.value).set(name, view)
}
