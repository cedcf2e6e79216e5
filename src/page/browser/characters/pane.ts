import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { addressOf } from '../base/route.ts'

/** What stands beside the list of characters, and on a phone in its place. */
export interface PaneProps {
  readonly title: string
  /** Where the way back leads, below the characters; to all of them without it. */
  readonly back?: { readonly title: string; readonly address: string }
  readonly children?: ComponentChildren
}

/** A pane, whose title has the focus when it opens: whoever reads by ear is told where they are. */
export function Pane({ title, back, children }: PaneProps): VNode {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => heading.current?.focus(), [])
  const { title: backTitle, address } = back ?? { title: 'All characters', address: addressOf('characters') }
  return html`
    <section class="pane" aria-label=${title}>
      <a class="back" href=${address}><span aria-hidden="true">←</span> ${backTitle}</a>
      <h2 tabindex="-1" ref=${heading} dir="auto">${title}</h2>
      ${children}
    </section>
  `
}
