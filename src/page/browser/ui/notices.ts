import { effect, signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { Failure } from '../base/failure.ts'
import { identity } from '../base/session.ts'

interface Notice {
  readonly id: number
  readonly kind: 'done' | 'fault'
  readonly text: string
}

/** At most so many are shown: the oldest goes. */
const most = 4

const notices = signal<readonly Notice[]>([])
let count = 0

// The next to sign in in this tab may be somebody else.
effect(() => {
  if (identity.value === null) notices.value = []
})

/** Says in a line at the bottom that something is done; it goes when it is dismissed, or for newer ones. */
export function sayDone(text: string): void {
  say('done', text)
}

/** Says in a line at the bottom why something failed, unless the reader has ended it. */
export function sayFailure(error: unknown): void {
  const { code, message } = Failure.of(error)
  if (code !== 'stopped') say('fault', message)
}

function say(kind: Notice['kind'], text: string): void {
  notices.value = [...notices.value, { id: ++count, kind, text }].slice(-most)
}

function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id)
}

/** The lines at the bottom; screen readers are told of each. */
export function Notices(): VNode {
  return html`
    <div class="notices" role="status" aria-live="polite">
      ${notices.value.map(
        ({ id, kind, text }) => html`
          <p key=${id} class=${kind}>${text} <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => dismiss(id)}>✕</button></p>
        `,
      )}
    </div>
  `
}
