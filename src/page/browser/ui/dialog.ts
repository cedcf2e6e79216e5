import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly children?: ComponentChildren
  readonly class?: string
  /** The width on a wide screen, such as `28rem`. */
  readonly width?: string
}

/** A modal dialog. The browser keeps the focus inside, closes the dialog with Escape, and then restores the focus. */
export function Dialog({ title, onClose, children, class: name = '', width }: DialogProps): VNode {
  const dialog = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    const { current } = dialog
    current?.showModal()
    // The browser restores the focus only if the dialog is closed before it is removed.
    return () => current?.close()
  }, [])
  return html`
    <dialog ref=${dialog} class=${name} style=${width && { '--width': width }} aria-label=${title} onClose=${() => dialog.current && onClose()}>
      <header>
        <h2>${title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick=${() => dialog.current?.close()}>✕</button>
      </header>
      ${children}
    </dialog>
  `
}
