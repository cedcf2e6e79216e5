import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { ownValue } from '../base/own-value.ts'
import { formatNumber, formatShare } from '../ui/format.ts'
import { clip } from '../ui/long-text.ts'
import type { Prompt, SectionTokens } from './prompt.ts'

/**
 * The title of each section, and its OKLCH colours on light and on dark ground. Sections from the same source share a hue, so
 * that a bar of many sections can be read.
 */
const looks: Readonly<Record<string, readonly [title: string, onLight?: string, onDark?: string]>> = {
  system_prompt: ['System prompt', '42% 0.16 300', '84% 0.09 300'],
  request_system: ['System messages of the request', '52% 0.16 315', '74% 0.12 315'],
  lore_before_char: ['Lore before the character', '60% 0.13 60', '82% 0.13 75'],
  persona: ['Who the user is', '60% 0.13 240', '84% 0.08 240'],
  description: ['Description', '42% 0.1 155', '82% 0.11 155'],
  personality: ['Personality', '54% 0.11 150', '72% 0.12 150'],
  scenario: ['Scenario', '62% 0.12 140', '64% 0.12 145'],
  lore_after_char: ['Lore after the character', '52% 0.13 45', '74% 0.13 60'],
  lore_examples: ['Lore among the examples', '46% 0.11 70', '88% 0.11 90'],
  examples: ['Example dialogues', '48% 0.09 195', '80% 0.09 195'],
  greeting: ['Greeting', '60% 0.09 195', '68% 0.1 195'],
  conversation: ['Conversation', '48% 0.15 255', '76% 0.11 255'],
  lore_at_depth: ['Lore within the conversation', '62% 0.15 35', '68% 0.14 45'],
  author_note: ['Author’s note', '40% 0.14 270', '68% 0.13 270'],
  depth_note: ['Character’s note', '40% 0.07 180', '88% 0.07 180'],
  post_history: ['Instructions after the conversation', '58% 0.15 330', '66% 0.14 330'],
  prefill: ['Beginning of the reply', '62% 0.13 345', '80% 0.1 345'],
  between: ['Between the messages'],
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
  const isPointed = (section: string) => (pointed.value === section ? 'pointed' : undefined)
  const label = `Tokens by section: ${sections.map((each) => `${titleOf(each)} ${each.tokens}`).join(', ')}`
  return html`
    <section>
      <h3>Tokens by section</h3>
      <div class="section-bar" role="img" aria-label=${label}>
        ${sections.map(
          (each) => html`
            <div key=${each.section} class=${isPointed(each.section)} style=${{ flexGrow: each.tokens, background: colourOf(each) }}
              title=${`${titleOf(each)}: ${formatNumber(each.tokens)}`} ...${point(each.section)}></div>
          `,
        )}
      </div>
      <table class="sections">
        <thead><tr><th scope="col">Section</th><th scope="col" class="number">Tokens</th><th scope="col" class="number">Share</th></tr></thead>
        <tbody>
          ${sections.map(
            (each) => html`
              <tr key=${each.section} class=${isPointed(each.section)} ...${point(each.section)}>
                <th scope="row"><span class="swatch" style=${{ background: colourOf(each) }}></span>${titleOf(each)}</th>
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
  return ownValue(looks, section)?.[0] ?? clip(section.replaceAll('_', ' '))
}

function colourOf({ section }: SectionTokens): string {
  const [, onLight, onDark] = ownValue(looks, section) ?? []
  return onLight === undefined ? 'var(--faint)' : `light-dark(oklch(${onLight}), oklch(${onDark}))`
}
