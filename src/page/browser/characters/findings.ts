import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { clip } from '../ui/long-text.ts'
import type { Findings as Found } from './character.ts'

/** The kinds of findings, the most serious first. */
const kinds = [
  { field: 'warnings', title: 'Read otherwise than it may be meant', isGrave: true },
  { field: 'never_fire', title: 'Lore that never fires', isGrave: true },
  { field: 'refused_regexes', title: 'Regular expressions that match nothing here', isGrave: true },
  { field: 'ignored', title: 'Fields that change nothing here (kept for export)', isGrave: false },
] as const

/** The parts of a card that the service ignores, refuses or never uses. */
export function Findings({ of: found }: { readonly of: Found }): VNode {
  const shown = kinds.filter(({ field }) => (found[field] ?? []).length > 0)
  if (shown.length === 0) return html`<p class="success"><span aria-hidden="true">✓</span> All of the card is used.</p>`
  return html`
    <div class="findings">
      ${shown.map(
        ({ field, title, isGrave }) => html`
          <section key=${field} class=${isGrave ? 'remark grave' : 'remark'}>
            <h4>${title}</h4>
            <ul>${(found[field] ?? []).map((text, index) => html`<li key=${index} dir="auto">${clip(text, 500)}</li>`)}</ul>
          </section>
        `,
      )}
    </div>
  `
}
