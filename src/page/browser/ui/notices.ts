import { effect, signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
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

/** Milliseconds that a notice of something done stays, and what each character adds: long ones are read for longer. */
const shownFor = 5000
const shownForEach = 60

/** Says in a line at the bottom that something is done; it goes by itself once there was time to read it. */
export function sayDone(text: string): void {
  say('done', text)
}

/** Says in a line at the bottom why something failed, unless the reader has ended it; it stays until it is dismissed, or newer ones take its place. */
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
      ${notices.value.map((notice) => html`<${Line} key=${notice.id} notice=${notice} />`)}
    </div>
  `
}

function Line({ notice: { id, kind, text } }: { readonly notice: Notice }): VNode {
  /** Whether the pointer or the focus is on it: it stays then. */
  const [isPointed, setPointed] = useState(false)
  const [isFocused, setFocused] = useState(false)
  const goes = kind === 'done' && !isPointed && !isFocused
  useEffect(() => {
    if (!goes) return
    const timer = setTimeout(() => dismiss(id), shownFor + shownForEach * text.length)
    return () => clearTimeout(timer)
  }, [goes])
  return html`
    <p class=${kind} onMouseEnter=${() => setPointed(true)} onMouseLeave=${() => setPointed(false)}
      onFocusIn=${() => setFocused(true)} onFocusOut=${() => setFocused(false)}>
      <span dir="auto">${text}</span>
      <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => dismiss(id)}>✕</button>
    </p>
  `
}
