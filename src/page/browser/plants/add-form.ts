import { signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { anyId } from '../base/any-id.ts'
import { getJson } from '../base/api.ts'
import { Failure } from '../base/failure.ts'
import { may, ofAccount } from '../base/session.ts'
import { textIn } from '../ui/field.ts'
import { add, tag as filter, said } from './list.ts'
import { quoted, type SentPlant } from './plant.ts'
import { reveal } from './table.ts'

/** The typed values. They stay when the view changes. */
const name = ofAccount('')
const tag = ofAccount('')

const isSending = signal(false)
const failure = ofAccount<Failure | undefined>(undefined)

/**
 * The plant that was sent, until it is added, and its idempotency key. A retry uses the same key, so that no second plant is
 * added.
 */
const attempt = ofAccount<{ readonly sent: string; readonly key: string } | undefined>(undefined)

/** The form that adds a plant. The typed name stays until the plant is added, and the tag stays for the next plant. */
export function AddForm(): VNode {
  return html`
    <form class="panel add" aria-label="Add a plant" onSubmit=${submit}>
      <div>
        <label for="new-name">Name</label>
        <input id="new-name" name="name" dir="auto" required autocomplete="off" value=${name.value} aria-describedby=${failure.value && 'add-fault'}
          onInput=${(event: Event) => (name.value = textIn(event))} />
      </div>
      <div>
        <label for="new-tag">Tag <span class="faint">(optional)</span></label>
        <input id="new-tag" name="tag" dir="auto" autocomplete="off" list="tags" value=${tag.value} onInput=${(event: Event) => (tag.value = textIn(event))} />
      </div>
      <button type="submit" class="main" disabled=${isSending.value}>${isSending.value ? 'Adding …' : 'Add plant'}</button>
      ${failure.value && html`<p id="add-fault" class="fault" role="alert">${sentenceOf(failure.value)}</p>`}
    </form>
  `
}

function sentenceOf({ status, message, retryAfter }: Failure): string {
  if (status === 0) return `${message} If the plant was added already, adding it again makes no second one.`
  if (status === 429 && retryAfter !== undefined) return `${message} Try again in ${retryAfter} s.`
  return message
}

async function submit(event: SubmitEvent): Promise<void> {
  event.preventDefault()
  if (isSending.value) return
  const plant = { name: name.value.trim(), ...(tag.value.trim() === '' ? {} : { tag: tag.value.trim() }) }
  const sent = JSON.stringify(plant)
  const { key } = attempt.value?.sent === sent ? attempt.value : { key: anyId() }
  attempt.value = { sent, key }
  isSending.value = true
  failure.value = undefined
  said.value = ''
  const { currentTarget: form } = event
  try {
    const headers = { 'idempotency-key': key }
    const made = await getJson<SentPlant>('plants?include=id', { method: 'POST', json: plant, headers })
    attempt.value = undefined
    name.value = ''
    tellOf(made)
  } catch (error) {
    failure.value = Failure.of(error)
  } finally {
    isSending.value = false
    // The name gets the focus, so that the reader can type the next plant or correct a refused name.
    if (form instanceof HTMLFormElement) form.querySelector('input')?.focus()
  }
}

/** Shows an added plant. If the list cannot show the plant, says why. */
function tellOf(made: SentPlant): void {
  const shown = may('plants:read') ? add(made) : undefined
  if (shown) reveal(shown)
  said.value = `${quoted(made.name)} is added, with the id ${made.id}.${shown ? '' : whyUnseen(made)}`
}

function whyUnseen({ tag }: SentPlant): string {
  if (!may('plants:read')) return ' This key may not list plants.'
  if (filter.value !== '' && filter.value !== tag)
    return ` The list shows plants with the tag ${quoted(filter.value)} alone.`
  return ' Its place in the list is not loaded yet.'
}
