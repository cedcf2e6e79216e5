import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'

/** What a dialog shows. */
export interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly children?: ComponentChildren
  readonly class?: string
}

/** A dialog over the page: the browser keeps the focus in it, closes it with Escape, and gives the focus back. */
export function Dialog({ title, onClose, children, class: name = '' }: DialogProps): VNode {
  const dialog = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    const { current } = dialog
    current?.showModal()
    // A dialog that is taken away while it is open would not give the focus back.
    return () => current?.close()
  }, [])
  return html`
    <dialog ref=${dialog} class=${name} aria-label=${title} onClose=${() => dialog.current && onClose()}>
      <header>
        <h2>${title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick=${() => dialog.current?.close()}>✕</button>
      </header>
      ${children}
    </dialog>
  `
}
