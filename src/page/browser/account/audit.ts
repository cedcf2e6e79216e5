import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useMemo } from 'preact/hooks'
import { may } from '../base/session.ts'
import { formatMoment } from '../ui/format.ts'
import { Name } from '../ui/names.ts'
import { actionGroups, Differences, type Facts, wordsOfAction } from './audit-differences.ts'
import { KeyName } from './key-names.ts'
import { ListPart, PagedList } from './paged-list.ts'
import { localMidnight } from './period.ts'

/** A record of `GET /audit`. */
interface AuditRecord {
  readonly id: string
  /** Unix seconds. */
  readonly at: number
  readonly actor: { readonly kind: string; readonly key: string | null; readonly account: string | null }
  readonly from: string | null
  readonly action: string
  readonly target: string | null
  readonly before: Facts | null
  readonly after: Facts | null
}

const none = { since: '', action: '', account: '' }

const trail = new PagedList<typeof none, AuditRecord>('audit', none, ({ since, action }) => {
  const moment = localMidnight(since)
  return { since: moment === undefined ? undefined : String(Math.max(0, moment)), action }
})

/** The audit trail. */
export function View(): VNode {
  const { since, action } = trail.typed.value
  const fields = html`
    <label>Since <input type="date" name="since" value=${since} /></label>
    <label>What
      <select name="action" value=${action}>
        <option value="">All</option>
        ${Object.entries(actionGroups).map(
          ([group, actions]) =>
            html`<optgroup label=${group}>${Object.entries(actions).map(([value, title]) => html`<option value=${value}>${title}</option>`)}</optgroup>`,
        )}
      </select>
    </label>
  `
  const help = `Who changed what${may('admin') ? ' in all accounts' : ' in this account'}, the oldest first. Secrets and texts are never on record.`
  return html`
    <${ListPart} list=${trail} name="audit" title="Audit trail" help=${help} one="change" many="changes" nothing="Nothing has been changed yet."
      more=", there are newer ones." end=", up to the newest." fields=${fields} anyAccount="all">
      <ol class="bare records" aria-label="Changes">
        ${trail.answer.value?.pages.map((records, page) => html`<${Page} key=${page} records=${records} />`)}
      </ol>
    <//>
  `
}

/** The records of a page. They never change, so they are rendered only once. */
function Page({ records }: { readonly records: readonly AuditRecord[] }): readonly VNode[] {
  return useMemo(() => records.map((record) => html`<${Change} key=${record.id} record=${record} />`), [records])
}

function Change({ record }: { readonly record: AuditRecord }): VNode {
  const { action, target, at, from, before, after } = record
  return html`
    <li class="panel">
      <div class="row spread">
        <h3>${wordsOfAction(action)}${target !== null && html`: <${Name} text=${target} />`}</h3>
        <time class="faint one-line" datetime=${new Date(at * 1000).toISOString()}>${formatMoment(at)}</time>
      </div>
      <p class="faint">by <${By} record=${record} />${from !== null && html`, from <bdi>${from}</bdi>`}</p>
      <${What} before=${before} after=${after} />
    </li>
  `
}

function By({ record: { actor } }: { readonly record: AuditRecord }): VNode {
  if (actor.key !== null) {
    const account = actor.account !== null && html` of <${Name} text=${actor.account} />`
    return html`<span>the key <${KeyName} prefix=${actor.key} />${account}</span>`
  }
  return html`<span>${actor.kind === 'command_line' ? 'the operator at the command line' : 'the service itself'}</span>`
}

/** The table of a changed object is open. The fields of a created or deleted object are folded. */
function What({ before, after }: { readonly before: Facts | null; readonly after: Facts | null }): VNode | null {
  if (Object.keys({ ...before, ...after }).length === 0) return null
  const table = html`<${Differences} before=${before} after=${after} />`
  if (before && after) return table
  return html`<details><summary class="faint">${after ? 'As it was made' : 'As it was'}</summary>${table}</details>`
}
