import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { getJson } from '../base/api.ts'
import { Dialog } from '../ui/dialog.ts'
import { textIn } from '../ui/field.ts'
import { Fault, LatestRequest } from '../ui/latest-request.ts'
import { change, type ListedModel, settings } from './settings.ts'
import type { Talk } from './talk.ts'
import { TransferButtons } from './transfer.ts'

/** The service's bounds in characters. */
const maxNameLength = 200
const maxPersonaLength = 16_384
/** The value of the menu entry for a model that the menu does not list. */
const other = '\u0000other'

/** Models that the key may use. */
const models = new LatestRequest<readonly ListedModel[]>()

/** The settings of the chat, and the export and import of the conversation. Changes take effect immediately. */
export function SettingsDialog({ talk, onClose }: { readonly talk: Talk; readonly onClose: () => void }): VNode {
  useEffect(() => void loadModels(), [])
  return html`
    <${Dialog} title="Settings" class="chat-settings" width="34rem" onClose=${onClose}>
      <div class="fields">
        <${ModelField} />
        <${TemperatureField} />
        <label>Your name
          <input autocomplete="nickname" maxlength=${maxNameLength} dir="auto" placeholder="User" value=${settings.value.userName}
            onInput=${onText((userName) => change({ userName }))} />
        </label>
        <div>
          <label>Who you are
            <textarea rows="4" maxlength=${maxPersonaLength} dir="auto" aria-describedby="persona-help" placeholder="A retired teacher who grows tomatoes."
              value=${settings.value.persona} onInput=${onText((persona) => change({ persona }))}></textarea>
          </label>
          <span class="help" id="persona-help">The character is told this. It stays in this browser, and goes to the model with each message.</span>
        </div>
      </div>
      <h3>This conversation</h3>
      <${TransferButtons} talk=${talk} onDone=${onClose} />
    </${Dialog}>
  `
}

function ModelField(): VNode {
  const { model } = settings.value
  const isTyped = useSignal(false)
  const { value: all = [] } = models.answer
  const known = all.some(({ id }) => id === model) || model === ''
  const isOther = isTyped.value || (!known && all.length > 0)
  const onChoice = onText((choice) => {
    isTyped.value = choice === other
    if (choice !== other) change({ model: choice })
  })
  const options = known || all.length > 0 ? all : [{ id: model }]
  return html`
    <label>Model
      <select onChange=${onChoice} value=${isOther ? other : model}>
        <option value="">The default of this service</option>
        ${options.map(({ id, description }) => html`<option key=${id} value=${id}>${id}${description && ' (test double)'}</option>`)}
        <option value=${other}>Another …</option>
      </select>
    </label>
    ${
      isOther &&
      html`<label>Id of the model
        <input spellcheck=${false} autocapitalize="off" maxlength="500" value=${model} onInput=${onText((typed) => change({ model: typed.trim() }))} />
      </label>`
    }
    <${Fault} of=${models} within="dialog" again=${loadModels} />
  `
}

function TemperatureField(): VNode {
  const { temperature } = settings.value
  const onNumber = onText((text) => {
    const value = Number(text)
    change({ temperature: text.trim() === '' || !Number.isFinite(value) ? null : Math.min(Math.max(0, value), 2) })
  })
  return html`
    <div>
      <label>Temperature
        <input type="number" min="0" max="2" step="0.1" aria-describedby="temperature-help" placeholder="The model's own" value=${temperature ?? ''} onChange=${onNumber} />
      </label>
      <span class="help" id="temperature-help">From 0 to 2. Low: the most likely words. High: more surprising ones.</span>
    </div>
  `
}

/** Makes a listener that passes the text of its field to `take`. */
function onText(take: (text: string) => void): (event: Event) => void {
  return (event) => take(textIn(event))
}

function loadModels(): Promise<void> {
  return models.ask(async (signal) => {
    const { data } = await getJson<{ readonly data: readonly ListedModel[] }>('models', { signal })
    return data.filter(({ id }) => !id.startsWith('character/'))
  })
}
