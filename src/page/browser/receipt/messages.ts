import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { formatNumber } from '../ui/format.ts'
import { clip, LongText } from '../ui/long-text.ts'
import { type PromptMessage, textOfMessage } from './prompt.ts'

/** The number of messages that are shown at first, and that each click on the button adds. */
const portion = 50

/** The messages that a model gets. Each message can be unfolded. */
export function Messages({ messages }: { readonly messages: readonly PromptMessage[] }): VNode {
  const count = useSignal(portion)
  const left = messages.length - count.value
  return html`
    <ol class="messages">
      ${messages.slice(0, count.value).map((message, index) => html`<li key=${index}><${Message} message=${message} /></li>`)}
    </ol>
    ${
      left > 0 &&
      html`<p><button type="button" onClick=${() => (count.value += portion)}>Show ${formatNumber(Math.min(portion, left))} more of ${formatNumber(left)}</button></p>`
    }
  `
}

function Message({ message }: { readonly message: PromptMessage }): VNode {
  const isOpen = useSignal(false)
  const text = textOfMessage(message)
  const toggle = (event: Event) => {
    isOpen.value = event.currentTarget instanceof HTMLDetailsElement && event.currentTarget.open
  }
  const isWithheld = text === '[withheld]'
  return html`
    <details class="panel" onToggle=${toggle}>
      <summary>
        <span class="tag">${clip(message.role, 20)}</span>
        ${message.name !== undefined && html` <bdi class="one-line">${clip(message.name)}</bdi>`}
        ${' '}<span class="beginning one-line grow" dir="auto">${clip(text, 120)}</span>
        ${' '}<span class="faint length">${isWithheld ? '' : `${formatNumber(text.length)} characters`}</span>
      </summary>
      ${
        isOpen.value &&
        html`
          <div class="message-text" tabindex="0" role="region" aria-label=${`The ${clip(message.role, 20)} message`}>
            ${isWithheld ? html`<p>The card is the operator’s own: a key with the scope “admin” sees its text.</p>` : html`<${LongText} text=${text} what="the message" />`}
          </div>
        `
      }
    </details>
  `
}
