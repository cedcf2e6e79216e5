import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Failure } from '../base/failure.ts'
import { ofAccount } from '../base/session.ts'

interface Notice {
  readonly id: number
  readonly kind: 'done' | 'fault'
  readonly text: string
}

/** The most notices that are shown. A further notice replaces the oldest notice. */
const maxNotices = 4

const notices = ofAccount<readonly Notice[]>([])
let count = 0

/** Milliseconds for which a notice of success stays, and the additional milliseconds for each character. */
const shownMs = 5000
const shownMsPerCharacter = 60

/** Shows a notice of success, which disappears by itself. */
export function sayDone(text: string): void {
  say('done', text)
}

/**
 * Shows a failure, unless the reader has stopped the action. The notice stays until it is dismissed or newer notices replace it.
 */
export function sayFailure(error: unknown): void {
  const { code, message } = Failure.of(error)
  if (code !== 'stopped') say('fault', message)
}

function say(kind: Notice['kind'], text: string): void {
  notices.value = [...notices.value, { id: ++count, kind, text }].slice(-maxNotices)
}

function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id)
}

/** The notices. Screen readers announce each notice. */
export function Notices(): VNode {
  return html`
    <div class="notices" role="status" aria-live="polite">
      ${notices.value.map((notice) => html`<${Line} key=${notice.id} notice=${notice} />`)}
    </div>
  `
}

function Line({ notice: { id, kind, text } }: { readonly notice: Notice }): VNode {
  // A notice stays while it is under the pointer or has the focus.
  const [isPointed, setPointed] = useState(false)
  const [isFocused, setFocused] = useState(false)
  const goes = kind === 'done' && !isPointed && !isFocused
  useEffect(() => {
    if (!goes) return
    const timer = setTimeout(() => dismiss(id), shownMs + shownMsPerCharacter * text.length)
    return () => clearTimeout(timer)
  }, [goes])
  return html`
    <p class=${`panel ${kind}`} onMouseEnter=${() => setPointed(true)} onMouseLeave=${() => setPointed(false)}
      onFocusIn=${() => setFocused(true)} onFocusOut=${() => setFocused(false)}>
      <span dir="auto">${text}</span>
      <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => dismiss(id)}>✕</button>
    </p>
  `
}
