import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'

/** The element that gets the focus when the button disappears, by the place of the button. */
const next = {
  part: ['section', 'h2'],
  row: ['tr', 'a'],
  dialog: ['dialog', 'button'],
} as const

interface DisappearingButtonProps {
  readonly onClick: () => void
  /** The place of the button. */
  readonly within: keyof typeof next
  /** Whether its work is running. The button is not disabled then, since a disabled button loses the focus. */
  readonly isBusy?: boolean
  /** Its name for screen readers, where its text is not enough. */
  readonly label?: string
  readonly children?: ComponentChildren
}

/** A button that may disappear when its work is done. It then gives the focus to an element near it; otherwise the focus would be lost. */
export function DisappearingButton({
  onClick,
  within,
  isBusy = false,
  label,
  children,
}: DisappearingButtonProps): VNode {
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
