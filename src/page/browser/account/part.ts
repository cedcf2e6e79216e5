import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { Fault, type LatestRequest } from '../ui/latest-request.ts'

/** A part of the account's view. */
export interface PartProps {
  readonly name: string
  readonly title: string
  readonly help: string
  /** The request whose answer the part shows, and the function that sends it. */
  readonly request: LatestRequest<unknown>
  readonly load: () => void
  /** What stands beside the title, instead of the button “Reload”. */
  readonly tools?: ComponentChildren
  /** What stands above the answer, such as a form that filters it. */
  readonly above?: ComponentChildren
  /** The answer. */
  readonly children?: ComponentChildren
}

/** A part of the account's view: its title, the answer of its request, and what happens until the answer comes. */
export function Part(props: PartProps): VNode {
  const { name, title, help, request, load, above, children } = props
  const { tools = html`<button type="button" onClick=${load}>Reload</button>` } = props
  const isWaiting = request.isWaiting.value
  return html`
    <section class=${`account-part ${name}`} aria-labelledby=${`${name}-title`} aria-busy=${isWaiting}>
      <div class="row spread title">
        <h2 id=${`${name}-title`} tabindex="-1">${title}</h2>
        ${tools}
      </div>
      <p class="help">${help}</p>
      ${above}
      <${Fault} of=${request} within="part" again=${load} />
      ${!request.answer.value && isWaiting && html`<p class="waiting" role="status">Loading …</p>`}
      ${children}
    </section>
  `
}
