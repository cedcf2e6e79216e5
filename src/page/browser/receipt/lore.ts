import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { ownValue } from '../base/own-value.ts'
import { formatNumber } from '../ui/format.ts'
import { clip } from '../ui/long-text.ts'
import type { Lore } from './prompt.ts'

/**
 * The reasons why a lore entry is not in the prompt. The service gives `limit` for two causes: too much text, or too many keys.
 * In the second case, not all keys of the entry may have been searched for.
 */
const reasons: Readonly<Record<string, string>> = {
  probability: 'its probability did not come up this time',
  group: 'another entry of its group was drawn',
  position: 'its position is nowhere in this prompt',
  limit: 'its lorebook has too much text, or too many keys to look for',
  budget: 'the budget of its lorebook is spent',
  context: 'the model’s context has no more room',
}

/** The most lore entries, and the most keys of an entry, that are shown. Further entries and keys are only counted. */
const maxEntries = 300
const maxKeys = 20

/** The lore entries that fired, with their keys, and the entries that were left out. */
export function LoreTable({ lore }: { readonly lore: readonly Lore[] }): VNode {
  if (lore.length === 0) {
    return html`<section><h3>Lore</h3><p>No lore entry fired.</p></section>`
  }
  const fired = lore.filter((entry) => entry.fired).length
  return html`
    <section>
      <h3>Lore</h3>
      <p>${formatNumber(fired)} in the prompt, ${formatNumber(lore.length - fired)} left out.</p>
        <table class="lore">
          <thead>
            <tr><th scope="col">Entry</th><th scope="col">Why</th><th scope="col" class="number">Tokens</th></tr>
          </thead>
          <tbody>${lore.slice(0, maxEntries).map((entry, index) => html`<${Row} key=${index} lore=${entry} />`)}</tbody>
        </table>
      ${lore.length > maxEntries && html`<p class="faint">And ${formatNumber(lore.length - maxEntries)} more.</p>`}
    </section>
  `
}

function Row({ lore }: { readonly lore: Lore }): VNode {
  const { entry, book, fired, tokens, dropped } = lore
  return html`
    <tr>
      <th scope="row"><bdi>${clip(entry) || 'without a name'}</bdi><br /><small class="faint"><bdi>${clip(book) || 'lorebook without a name'}</bdi></small></th>
      <td>
        <div><span class=${fired ? 'success' : 'fault'} aria-hidden="true">${fired ? '✓' : '✗'}</span> ${fired ? 'In the prompt' : html`Left out: ${ownValue(reasons, dropped ?? '') ?? clip(dropped ?? 'no reason is known')}`}</div>
        <${Keys} lore=${lore} />
      </td>
      <td class="number">${formatNumber(tokens)}</td>
    </tr>
  `
}

function Keys({ lore: { keys, entry, dropped } }: { readonly lore: Lore }): VNode | null {
  if (keys !== undefined && keys.length > 0) {
    const more = keys.length - maxKeys
    return html`<div class="tags"><span class="faint">Found by</span> ${keys.slice(0, maxKeys).map((key) => html`<code class="tag" dir="auto">${clip(key)}</code>`)}${more > 0 && html` and ${formatNumber(more)} more`}</div>`
  }
  if (entry.startsWith('[withheld]'))
    return html`<div class="faint">The card is the operator’s own: its keys are withheld.</div>`
  return dropped === 'limit' ? null : html`<div class="faint">It needs no key.</div>`
}
