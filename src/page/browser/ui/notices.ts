import { signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { Failure } from '../base/failure.ts'

interface Notice {
  readonly id: number
  readonly kind: 'done' | 'fault'
  readonly text: string
}

/** At most so many are shown: the oldest goes. */
const most = 4

const notices = signal<readonly Notice[]>([])
let count = 0

/** Says in a line at the bottom that something is done; it goes when it is dismissed, or for newer ones. */
export function sayDone(text: string): void {
  say('done', text)
}

/** Says in a line at the bottom why something failed. */
export function sayFailure(error: unknown): void {
  say('fault', Failure.of(error).message)
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
