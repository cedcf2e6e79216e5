import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'

/** Where the focus goes when such a button goes: something within what it stands in. */
const next = {
  part: ['section', 'h2'],
  row: ['tr', 'a'],
  dialog: ['dialog', 'button'],
} as const

interface FleetingButtonProps {
  readonly onClick: () => void
  /** Where it stands. */
  readonly within: keyof typeof next
  /** Whether what it does is being done; it keeps the focus meanwhile, which a disabled button would lose. */
  readonly isBusy?: boolean
  /** Its name for screen readers, where its text is not enough. */
  readonly label?: string
  readonly children?: ComponentChildren
}

/** A button that may be gone when its work is done: it gives the focus to what stands near, which would be nowhere otherwise. */
export function FleetingButton({ onClick, within, isBusy = false, label, children }: FleetingButtonProps): VNode {
  const button = useRef<HTMLButtonElement>(null)
  useLayoutEffect(() => {
    const { current } = button
    const [around, near] = next[within]
    const other = current?.closest(around)?.querySelector<HTMLElement>(near)
    return () => {
      if (current !== null && document.activeElement === current) other?.focus()
    }
  }, [])
  return html`
    <button type="button" ref=${button} aria-label=${label} aria-disabled=${isBusy} onClick=${() => isBusy || onClick()}>${children}</button>
  `
}
