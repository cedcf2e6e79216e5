import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { ownValue } from '../base/own-value.ts'
import { formatMoment, formatNumber } from '../ui/format.ts'
import { moments, nothings, wordsOfFact } from './audit-words.ts'
import { Name, shown } from './names.ts'

/** The fields of a changed object. */
export type Facts = Readonly<Record<string, unknown>>

/** A field before and after a change. A value is undefined if that state does not have the field. */
export interface Difference {
  readonly name: string
  readonly before: unknown
  readonly after: unknown
}

/** The most entries of a list that are shown. */
const maxEntries = 100

/** Compares the fields of two states. Fields of nested objects have separate lines. */
export function differencesOf(before: Facts | null, after: Facts | null): readonly Difference[] {
  const was = flat(before)
  const is = flat(after)
  const names = [...new Set([...was.keys(), ...is.keys()])]
  return names.map((name) => ({ name, before: was.get(name), after: is.get(name) }))
}

function flat(facts: Facts | null): ReadonlyMap<string, unknown> {
  const found = new Map<string, unknown>()
  for (const [name, value] of Object.entries(facts ?? {})) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      found.set(name, value)
      continue
    }
    const within = Object.entries(value)
    if (within.length === 0) found.set(name, null)
    for (const [inner, each] of within) found.set(`${name}.${inner}`, each)
  }
  return found
}

/** A table of the state before and the state after. A created or deleted object has only one of them. */
export function Differences({
  before,
  after,
}: {
  readonly before: Facts | null
  readonly after: Facts | null
}): VNode | null {
  const differences = differencesOf(before, after)
  if (differences.length === 0) return null
  const isChange = before !== null && after !== null
  return html`
    <table class="differences">
      <thead>
        <tr>
          <th scope="col">What</th>
          ${before && html`<th scope="col">${isChange ? 'Before' : 'Value'}</th>`}
          ${after && html`<th scope="col">${isChange ? 'After' : 'Value'}</th>`}
        </tr>
      </thead>
      <tbody>
        ${differences.map(
          ({ name, before: was, after: is }) => html`
            <tr key=${name}>
              <th scope="row">${shown(wordsOfFact(name))}</th>
              ${before && html`<td class="was"><${Value} name=${name} value=${was} other=${isChange ? is : undefined} /></td>`}
              ${after && html`<td><${Value} name=${name} value=${is} other=${isChange ? was : undefined} /></td>`}
            </tr>
          `,
        )}
      </tbody>
    </table>
  `
}

interface ValueProps {
  readonly name: string
  readonly value: unknown
  /** The value in the other state. Entries of a list are marked if the list in the other state does not have them. */
  readonly other: unknown
}

function Value({ name, value, other }: ValueProps): VNode {
  if (Array.isArray(value)) return html`<${List} values=${value} others=${Array.isArray(other) ? other : value} />`
  if (value === undefined) return html`<span class="faint">–</span>`
  if (value === null) return html`<span class="faint">${ownValue(nothings, name) ?? 'none'}</span>`
  if (typeof value === 'number')
    return html`<span>${moments.has(name) ? formatMoment(value) : formatNumber(value)}</span>`
  return html`<${Name} text=${typeof value === 'string' ? value : JSON.stringify(value)} />`
}

function List({ values, others }: { readonly values: readonly unknown[]; readonly others: readonly unknown[] }): VNode {
  if (values.length === 0) return html`<span class="faint">none</span>`
  const isCommon = new Set(others.map(textOf))
  const texts = values.map(textOf)
  // Entries that differ come first.
  const sorted = [...texts.filter((text) => !isCommon.has(text)), ...texts.filter((text) => isCommon.has(text))]
  return html`
    <span class="tags">
      ${sorted
        .slice(0, maxEntries)
        .map(
          (text) =>
            html`<span key=${text} class=${isCommon.has(text) ? 'tag' : 'tag other'}><${Name} text=${text} /></span>`,
        )}
      ${sorted.length > maxEntries && html`<span class="faint">and ${formatNumber(sorted.length - maxEntries)} more</span>`}
    </span>
  `
}

/** In a list of shared tags, null means all plants. */
function textOf(value: unknown): string {
  if (value === null) return 'all'
  return typeof value === 'string' ? value : JSON.stringify(value)
}
