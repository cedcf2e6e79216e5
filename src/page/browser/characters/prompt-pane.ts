import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { addressOf } from '../base/route.ts'
import type { ChatBody } from '../receipt/prompt.ts'
import { PromptReceipt } from '../receipt/view.ts'
import { useLoading } from '../ui/loading.ts'
import { clip } from '../ui/long-text.ts'
import { detailsOf } from './character.ts'
import { Pane } from './pane.ts'

/** The prompt that a model would get at the beginning of a conversation with a character. No model is asked. */
export function PromptPane({ name }: { readonly name: string }): VNode {
  const asked = useSignal<ChatBody | undefined>(undefined)
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    if (event.currentTarget instanceof HTMLFormElement) asked.value = bodyOf(name, new FormData(event.currentTarget))
  }
  return html`
    <${Pane} title=${`What a model is told of ${clip(name, 100)}`} back=${{ title: clip(name, 40), address: addressOf('characters', name) }}>
      <form class="preview" onSubmit=${submit}>
        <div>
          <label for="first-message">Your first message</label>
          <textarea id="first-message" name="message" rows="3" required dir="auto">Hello!</textarea>
        </div>
        <${Greeting} name=${name} />
        <div>
          <label for="user-name">Your name</label>
          <input id="user-name" name="user" placeholder="User" maxlength="200" dir="auto" />
        </div>
        <div>
          <label for="model">Model</label>
          <input id="model" name="model" value="default" required spellcheck=${false} />
        </div>
        <p><button type="submit" class="main">Show what it is told</button></p>
      </form>
      ${asked.value && html`<${PromptReceipt} request=${asked.value} />`}
    <//>
  `
}

/** The greetings to choose from. Until they are loaded, the choice is between the card's first greeting and no greeting. */
function Greeting({ name }: { readonly name: string }): VNode {
  const { value: details } = useLoading((signal) => detailsOf(name, signal), [name])
  return html`
    <div>
      <label for="greeting">Greeting</label>
      <select key=${details ? 'known' : 'unknown'} id="greeting" name="greeting">
        ${
          details && details.greetings.length > 0
            ? details.greetings.map(
                ({ index, text }) => html`<option key=${index} value=${index}>${index + 1}: ${clip(text, 60)}</option>`,
              )
            : html`<option value="">The first of the card</option>`
        }
        <option value="-1">None</option>
      </select>
    </div>
  `
}

function bodyOf(name: string, form: FormData): ChatBody {
  const text = (field: string) => String(form.get(field) ?? '').trim()
  return {
    model: text('model'),
    character: name,
    messages: [{ role: 'user', content: text('message') }],
    ...(text('user') === '' ? {} : { user_name: text('user') }),
    ...(text('greeting') === '' ? {} : { greeting: Number(text('greeting')) }),
  }
}
