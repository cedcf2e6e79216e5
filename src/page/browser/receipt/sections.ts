import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { ownValue } from '../base/own-value.ts'
import { formatNumber, formatShare } from '../ui/format.ts'
import { clip } from '../ui/long-text.ts'
import type { Prompt, SectionTokens } from './prompt.ts'

/** The titles of the sections. Their colours are in receipt.css: sections from the same source share a hue. */
const titles: Readonly<Record<string, string>> = {
  system_prompt: 'System prompt',
  request_system: 'System messages of the request',
  lore_before_char: 'Lore before the character',
  persona: 'Who the user is',
  description: 'Description',
  personality: 'Personality',
  scenario: 'Scenario',
  lore_after_char: 'Lore after the character',
  lore_examples: 'Lore among the examples',
  examples: 'Example dialogues',
  greeting: 'Greeting',
  conversation: 'Conversation',
  lore_at_depth: 'Lore within the conversation',
  author_note: 'Author’s note',
  depth_note: 'Character’s note',
  post_history: 'Instructions after the conversation',
  prefill: 'Beginning of the reply',
  between: 'Between the messages',
}

/** The sections of a prompt as one bar, with a table of their tokens. */
export function Sections({ tokens }: { readonly tokens: Prompt['tokens'] }): VNode {
  /** The section under the pointer, in the table or in the bar. */
  const pointed = useSignal('')
  const sections = withRest(tokens)
  const point = (section: string) => ({
    onMouseEnter: () => (pointed.value = section),
    onMouseLeave: () => (pointed.value = ''),
  })
  const look = (section: string) => `section-${section}${pointed.value === section ? ' pointed' : ''}`
  const label = `Tokens by section: ${sections.map((each) => `${titleOf(each)} ${each.tokens}`).join(', ')}`
  return html`
    <section>
      <h3>Tokens by section</h3>
      <div class="section-bar" role="img" aria-label=${label}>
        ${sections.map(
          (each) => html`
            <div key=${each.section} class=${look(each.section)} style=${{ flexGrow: each.tokens }}
              title=${`${titleOf(each)}: ${formatNumber(each.tokens)}`} ...${point(each.section)}></div>
          `,
        )}
      </div>
      <table class="sections">
        <thead><tr><th scope="col">Section</th><th scope="col" class="number">Tokens</th><th scope="col" class="number">Share</th></tr></thead>
        <tbody>
          ${sections.map(
            (each) => html`
              <tr key=${each.section} class=${look(each.section)} ...${point(each.section)}>
                <th scope="row"><span class="swatch"></span>${titleOf(each)}</th>
                <td class="number">${formatNumber(each.tokens)}</td>
                <td class="number">${formatShare(each.tokens / Math.max(1, tokens.total))}</td>
              </tr>
            `,
          )}
        </tbody>
        <tfoot><tr><th scope="row">All of it</th><td class="number">${formatNumber(tokens.total)}</td><td class="number">${formatShare(1)}</td></tr></tfoot>
      </table>
    </section>
  `
}

/** Adds a section for the tokens that a model's format adds around each message. */
function withRest({ total, sections }: Prompt['tokens']): readonly SectionTokens[] {
  const rest = total - sections.reduce((sum, { tokens }) => sum + tokens, 0)
  const all = rest > 0 ? [...sections, { section: 'between', tokens: rest }] : sections
  return all.filter(({ tokens }) => tokens > 0)
}

/**
 * The title of a section. A newer service may send a section that this page does not know. Then the title is the name of the
 * section.
 */
function titleOf({ section }: SectionTokens): string {
  return ownValue(titles, section) ?? clip(section.replaceAll('_', ' '))
}
