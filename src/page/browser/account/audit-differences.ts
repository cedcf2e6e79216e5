import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { ownValue } from '../base/own-value.ts'
import { formatMoment, formatNumber } from '../ui/format.ts'
import { Name, shown } from '../ui/names.ts'

/** The fields of a changed object. */
export type Facts = Readonly<Record<string, unknown>>

/** The most entries of a list that are shown. */
const maxEntries = 100

/** The fields of a state. Fields of nested objects are separate. */
function flat(facts: Facts | null): ReadonlyMap<string, unknown> {
  const found = Object.entries(facts ?? {}).flatMap(([name, value]): readonly (readonly [string, unknown])[] => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[name, value]]
    const within = Object.entries(value)
    return within.length === 0 ? [[name, null]] : within.map(([inner, each]) => [`${name}.${inner}`, each])
  })
  return new Map(found)
}

/** A table of the state before and the state after. A created or deleted object has only one of them. */
export function Differences({ before, after }: Record<'before' | 'after', Facts | null>): VNode {
  const [was, is] = [flat(before), flat(after)]
  const names = [...new Set([...was.keys(), ...is.keys()])]
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
        ${names.map(
          (name) => html`
            <tr key=${name}>
              <th scope="row">${shown(wordsOfFact(name))}</th>
              ${before && html`<td class="was"><${Value} name=${name} value=${was.get(name)} other=${isChange ? is.get(name) : undefined} /></td>`}
              ${after && html`<td><${Value} name=${name} value=${is.get(name)} other=${isChange ? was.get(name) : undefined} /></td>`}
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

/** The audited actions with their titles, in groups. */
export const actionGroups: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Keys: {
    'key.created': 'Key made',
    'key.rotated': 'Key rotated',
    'key.revoked': 'Key revoked',
    'key.limited': 'Limits of a key changed',
  },
  Accounts: {
    'account.created': 'Account made',
    'account.suspended': 'Account suspended',
    'account.resumed': 'Account resumed',
    'account.limited': 'Limits of an account changed',
    'account.changed': 'Time zone of an account changed',
    'account.deleted': 'Account deleted',
    'account.exported': 'Account exported',
    'account.imported': 'Account imported',
    'account.import_undone': 'Import of an account undone',
  },
  'Shares of plants': {
    'share.granted': 'Plants shared',
    'share.revoked': 'Share taken back',
  },
  Calendars: {
    'feed.created': 'Calendar feed made',
    'feed.ended': 'Calendar feed ended',
  },
  Characters: {
    'character.created': 'Character added',
    'character.replaced': 'Character replaced',
    'character.deleted': 'Character deleted',
    'character.purged': 'Old version of a character removed',
  },
  Service: {
    'database.restored': 'Database restored',
    'database.migrated': 'Database migrated',
    'models.reloaded': 'Models read again',
  },
}

const titles = new Map(Object.values(actionGroups).flatMap((actions) => Object.entries(actions)))

/**
 * The title of an action. A newer service may send an action that this page does not know. Then the title is the name of the
 * action.
 */
export function wordsOfAction(action: string): string {
  return titles.get(action) ?? action
}

const facts: Readonly<Record<string, string>> = {
  account: 'Account',
  name: 'Name',
  scopes: 'Scopes',
  expires: 'Expires',
  revoked: 'Stops working',
  limits: 'Limits',
  models: 'Models',
  suspended: 'Suspended',
  successor: 'Its successor',
  tags: 'Tags',
  plants: 'Plants',
  rows: 'Rows',
  place: 'Database',
  backup: 'Backup',
  schema: 'Schema',
  card: 'Card',
}

/** The title of a field. The name of a nested field contains dots. */
function wordsOfFact(name: string): string {
  const [whole = '', ...within] = name.split('.')
  if (within.length > 0) return `${ownValue(facts, whole) ?? sentence(whole)}: ${within.join('.').replaceAll('_', ' ')}`
  return ownValue(facts, name) ?? sentence(name)
}

function sentence(name: string): string {
  const words = name.replaceAll('_', ' ')
  return words.slice(0, 1).toUpperCase() + words.slice(1)
}

/** Fields in Unix seconds. */
export const moments: ReadonlySet<string> = new Set(['expires', 'revoked', 'suspended'])

/** The words for fields that are null. */
const nothings: Readonly<Record<string, string>> = {
  name: 'none',
  expires: 'never',
  revoked: 'no',
  suspended: 'no',
  models: 'all',
}
