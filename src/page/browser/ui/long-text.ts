import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { formatNumber } from './format.ts'

/**
 * The characters that are shown at first, and that each click on the button adds. A megabyte in one step would block the page.
 */
const portion = 8000

/** An untrusted text with its line breaks, in portions. Its name is for the button, such as "the greeting". */
export function LongText({ text, what }: { readonly text: string; readonly what: string }): VNode {
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

/** The beginning of a text that must stay short, such as a name in a list. @param maxLength at least 1 */
export function clip(text: string, maxLength = 100): string {
  return text.length <= maxLength ? visible(text) : `${visible(cut(text, maxLength - 1))}…`
}

/**
 * Makes the control characters of a text visible: they become symbols of Unicode's block "Control Pictures". Tabs stay, and every
 * line break becomes a line feed.
 */
export function visible(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern finds control characters
  return text.replaceAll(/\r\n?/g, '\n').replaceAll(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/g, (character) => {
    const code = character.charCodeAt(0)
    return String.fromCharCode(code === 0x7f ? 0x2421 : 0x2400 + code)
  })
}

/** The first `length` UTF-16 units of a text, or one unit less if the cut would split a surrogate pair. */
export function cut(text: string, length: number): string {
  const isSplit = /[\ud800-\udbff]/.test(text.charAt(length - 1))
  return text.slice(0, isSplit ? length - 1 : length)
}
