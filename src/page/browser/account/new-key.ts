import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { copy } from '../ui/copy.ts'
import { isOwn, type NewKey, newKey } from './key-list.ts'

/** Shows a new key until the reader confirms that the key is saved. The panel stays when the reader visits another view. */
export function NewKeyPanel({ made }: { readonly made: NewKey }): VNode {
  const field = useRef<HTMLInputElement>(null)
  // The focus is set after a timeout, because the closing dialog first returns the focus to the button that opened the dialog.
  useEffect(() => {
    const timer = setTimeout(() => field.current?.focus())
    return () => clearTimeout(timer)
  }, [])
  return html`
    <div class="panel new-key" role="group" aria-labelledby="new-key-title">
      <h3 id="new-key-title">The new key${made.name !== null && html`: <bdi>${made.name}</bdi>`}</h3>
      <p>Copy it now, to where it is kept safe. <strong>It is not shown again</strong>, here or anywhere else: the service does not keep it.</p>
      ${isOwn(made) && html`<p>You are signed in with it from now on, in this tab.</p>`}
      <div class="row key">
        <label class="unseen" for="new-key">New key</label>
        <input id="new-key" ref=${field} readonly spellcheck=${false} value=${made.key} onFocus=${() => field.current?.select()} />
        <button type="button" class="main" onClick=${() => copy(made.key, 'The key')}>Copy</button>
        <button type="button" onClick=${dismiss}>I have kept it</button>
      </div>
    </div>
  `
}

function dismiss(): void {
  newKey.value = undefined
  document.getElementById('keys-title')?.focus()
}
