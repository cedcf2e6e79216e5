import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { Dialog } from '../ui/dialog.ts'
import { textIn } from '../ui/field.ts'
import { sayDone } from '../ui/notices.ts'
import { Question, useWork } from '../ui/work.ts'
import { isOwn, type Key, revokeKey, rotateKey } from './key-list.ts'

interface KeyDialogProps {
  readonly of: Key
  readonly onClose: () => void
}

/** Units of an overlap, in seconds. */
const units: readonly (readonly [name: string, seconds: number])[] = [
  ['seconds', 1],
  ['minutes', 60],
  ['hours', 3600],
  ['days', 86_400],
]

/** The longest overlap: a year. */
const maxOverlapSeconds = 31_536_000

/** Asks for the overlap, and rotates the key. */
export function Rotation({ of: key, onClose }: KeyDialogProps): VNode {
  const count = useSignal('1')
  const unit = useSignal('86400')
  const { run, isRunning, failure } = useWork(() => rotateKey(key, Number(count.value) * Number(unit.value)), onClose)
  const submit = (event: Event) => {
    event.preventDefault()
    void run()
  }
  return html`
    <${Dialog} title="Rotate this key" class="key-dialog" width="36rem" onClose=${onClose}>
      <form onSubmit=${submit}>
        <p>A new key takes the place of <${Named} of=${key} />: the same name, scopes, limits, models and end. Both work during the overlap, so that programs can be given the new one.</p>
        ${isOwn(key) && html`<p>You are signed in with this key. The page goes on with the new one.</p>`}
        <label for="overlap">The old key goes on for</label>
        <div class="row overlap">
          <input id="overlap" type="number" min="0" max=${Math.floor(maxOverlapSeconds / Number(unit.value))} step="1" required value=${count.value} onInput=${(event: Event) => (count.value = textIn(event))} aria-describedby="overlap-help" />
          <label class="unseen" for="overlap-unit">Unit</label>
          <select class="short" id="overlap-unit" value=${unit.value} onChange=${(event: Event) => (unit.value = textIn(event))}>
            ${units.map(([name, seconds]) => html`<option key=${name} value=${seconds}>${name}</option>`)}
          </select>
        </div>
        <p id="overlap-help" class="help">0 ends it at once; a year at most.</p>
        ${failure.value && html`<p class="fault" role="alert">${failure.value.message}</p>`}
        ${failure.value?.status === 0 && html`<p class="fault">It may have been rotated all the same: look at the list before you try again.</p>`}
        <p class="row">
          <button type="submit" class="main" disabled=${isRunning.value}>Rotate</button>
          <button type="button" onClick=${onClose}>Cancel</button>
        </p>
      </form>
    <//>
  `
}

/** Asks for confirmation, and revokes the key. */
export function Revocation({ of: key, onClose }: KeyDialogProps): VNode {
  const revoke = async () => {
    await revokeKey(key)
    sayDone(`The key ${key.prefix}… is revoked.`)
  }
  return html`
    <${Question} title="Revoke this key?" verb="Revoke" class="key-dialog" width="36rem" work=${revoke} onDone=${onClose} onClose=${onClose}>
      <p><${Named} of=${key} /> stops working at once, for good: programs that use it are refused, and replies that are still being written with it end.</p>
      ${isOwn(key) && html`<p><strong>You are signed in with this key:</strong> you are signed out then, and need another one to come back.</p>`}
    <//>
  `
}

function Named({ of: { prefix, name } }: { readonly of: Key }): VNode {
  return html`<code>${prefix}…</code>${name !== null && html` (<bdi>${name}</bdi>)`}`
}
