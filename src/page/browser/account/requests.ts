import { html } from 'htm/preact'
import type { VNode } from 'preact'

/** The view. */
export function View(): VNode {
  return html`<p class="waiting">Not built yet.</p>`
}
