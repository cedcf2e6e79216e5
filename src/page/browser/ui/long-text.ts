import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { formatNumber } from './format.ts'

/** A text of strangers, of any length. */
export interface LongTextProps {
  readonly text: string
  /** What the buttons say that there is more of, such as "the greeting". */
  readonly what: string
}

/** Characters that are shown at first, and with each step more: a megabyte in one piece would hold up the page. */
const portion = 8000

/** A text as it is, with its line breaks; a long one is shown in portions. */
export function LongText({ text, what }: LongTextProps): VNode {
  const length = useSignal(portion)
  const shown = cut(text, length.value)
  return html`
    <div class="long-text">
      <p dir="auto">${visible(shown)}</p>
      ${
        shown.length < text.length &&
        html`
          <p>
            <button type="button" onClick=${() => (length.value += portion)}>Show more of ${what}</button>
            ${' '}<span class="faint">${formatNumber(shown.length)} of ${formatNumber(text.length)} characters</span>
          </p>
        `
      }
    </div>
  `
}

/** The beginning of a text that must stay short, such as a name in a list. @param most characters, at least 1 */
export function clip(text: string, most = 100): string {
  return text.length <= most ? visible(text) : `${visible(cut(text, most - 1))}…`
}

/** A text in which control characters are seen: each becomes the picture that Unicode has for it. */
export function visible(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  return text.replaceAll(/\r\n?/g, '\n').replaceAll(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/g, (character) => {
    const code = character.charCodeAt(0)
    return String.fromCharCode(code === 0x7f ? 0x2421 : 0x2400 + code)
  })
}

/** The first `length` UTF-16 units of a text, or one less where the cut would split a surrogate pair. */
export function cut(text: string, length: number): string {
  const isSplit = /[\ud800-\udbff]/.test(text.charAt(length - 1))
  return text.slice(0, isSplit ? length - 1 : length)
}
