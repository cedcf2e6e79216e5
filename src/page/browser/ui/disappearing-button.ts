import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'

/**
 * For each place of the button: the selector of an element around the button, and the selector of the element inside that gets
 * the focus instead of the button.
 */
const next = {
  part: ['section', 'h2'],
  row: ['tr', 'a'],
  dialog: ['dialog', 'button'],
} as const

interface DisappearingButtonProps {
  readonly onClick: () => void
  /** The place of the button. */
  readonly within: keyof typeof next
  /**
   * Whether the work of the button is running. Even then the button is not disabled, because a disabled button loses the focus.
   */
  readonly isBusy?: boolean
  /** The name of the button for screen readers, if its text is not enough. */
  readonly label?: string
  readonly children?: ComponentChildren
}

/**
 * A button that may disappear when its work is done. Then an element near the button gets the focus. Otherwise the focus would be
 * lost.
 */
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
