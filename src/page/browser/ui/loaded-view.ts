import { signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { ComponentType, VNode } from 'preact'
import { Failure } from '../base/failure.ts'

/** A view whose module is loaded at its first use. */
export interface LoadedView {
  /** Unique among all views. */
  readonly name: string
  readonly load: () => Promise<{ readonly View: ComponentType }>
}

/** The loaded modules of views, or the failures to load them. */
const loaded = signal<ReadonlyMap<string, ComponentType | Failure>>(new Map())

/** Shows a view when its module is loaded. */
export function Loaded({ view: entry }: { readonly view: LoadedView }): VNode {
  const view = loaded.value.get(entry.name)
  if (view === undefined) {
    void load(entry)
    return html`<p class="waiting" role="status">Loading …</p>`
  }
  if (view instanceof Failure) {
    // A second import would fail too, because browsers cache the failure of a module until the page is reloaded.
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
