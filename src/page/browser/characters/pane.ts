import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { addressOf } from '../base/route.ts'

/** A pane beside the list of characters. On a phone, the pane replaces the list. */
export interface PaneProps {
  readonly title: string
  /** The target of the link back. By default it is the list of characters. */
  readonly back?: { readonly title: string; readonly address: string }
  readonly children?: ComponentChildren
}

/** A pane. When the pane opens, its title gets the focus, so that a screen reader announces the title. */
export function Pane({ title, back, children }: PaneProps): VNode {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => heading.current?.focus(), [])
  const { title: backTitle, address } = back ?? { title: 'All characters', address: addressOf('characters') }
  return html`
    <section class="pane column" aria-label=${title}>
      <a class="back" href=${address}><span aria-hidden="true">←</span> ${backTitle}</a>
      <h2 tabindex="-1" ref=${heading} dir="auto">${title}</h2>
      ${children}
    </section>
  `
}
