import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { copy } from './copy.ts'

/** The content of a block of code. */
export interface CodeBlockProps {
  readonly text: string
  /** The language after the opening fence; empty if the fence has no language. */
  readonly language: string
}

/** A block of code with a button that copies the code. The block can have the focus, so that the arrow keys scroll the code. */
export function CodeBlock({ text, language }: CodeBlockProps): VNode {
  const isCopied = useSignal(false)
  const take = async () => {
    isCopied.value = await copy(text, 'The code')
  }
  return html`
    <div class="panel code-block" dir="ltr">
      <div class="row spread faint code-head"><span>${language}</span><button type="button" class="quiet" onClick=${take}>${isCopied.value ? 'Copied' : 'Copy'}</button></div>
      <pre tabindex="0" role="region" aria-label=${`Code ${language}`}><code>${text}</code></pre>
    </div>
  `
}
