import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useMemo } from 'preact/hooks'
import { getJson } from '../base/api.ts'
import { may } from '../base/session.ts'
import { formatMoment, formatNumber } from '../ui/format.ts'
import { Differences, type Facts } from './audit-differences.ts'
import { actionGroups, wordsOfAction } from './audit-words.ts'
import { DisappearingButton } from './disappearing-button.ts'
import { Filter } from './filter.ts'
import { LatestRequest } from './latest-request.ts'
import { KeyName, loadKeyNames, Name } from './names.ts'
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

/** The filter of the list. An empty field filters nothing. The day is in the reader's time zone. */
interface AuditFilter {
  readonly since: string
  readonly action: string
  readonly account: string
}

interface Trail {
  readonly filter: AuditFilter
  readonly pages: readonly (readonly AuditRecord[])[]
  readonly hasMore: boolean
}

interface AuditAnswer {
  readonly data: readonly AuditRecord[]
  readonly has_more: boolean
}

const pageLength = 50

const filter = new Filter<AuditFilter>({ since: '', action: '', account: '' })
const trail = new LatestRequest<Trail>()

/** The audit trail. */
export function View(): VNode {
  const wanted = filter.chosen.value
  const load = () => list(wanted)
  useEffect(() => void load(), [wanted])
  useEffect(() => void loadKeyNames(), [])
  const { answer, failure, isWaiting } = trail
  return html`
    <section class="account-part" aria-labelledby="audit-title" aria-busy=${isWaiting.value}>
      <div class="row spread title">
        <h2 id="audit-title" tabindex="-1">Audit trail</h2>
        <button type="button" onClick=${load}>Reload</button>
      </div>
      <p class="help">Who changed what${may('admin') ? ' in all accounts' : ' in this account'}, the oldest first. Secrets and texts are never on record.</p>
      <${Filters} />
      ${
        failure.value &&
        html`<p class="fault" role="alert">${failure.value.message} <${DisappearingButton} within="part" onClick=${load} isBusy=${isWaiting.value}>Try again<//></p>`
      }
      ${!answer.value && isWaiting.value && html`<p class="waiting" role="status">Loading …</p>`}
      ${answer.value && html`<${Listed} trail=${answer.value} />`}
    </section>
  `
}

/**
 * Lists the oldest records that match a filter.
 * @param known the records that are already shown. The next page is added to them
 */
function list(wanted: AuditFilter, known?: Trail): Promise<void> {
  const query = new URLSearchParams({ limit: String(pageLength) })
  const since = localMidnight(wanted.since)
  if (since !== undefined) query.set('since', String(Math.max(0, since)))
  if (wanted.action) query.set('action', wanted.action)
  if (wanted.account.trim()) query.set('account', wanted.account.trim())
  const pages = known?.pages ?? []
  const last = pages.at(-1)?.at(-1)
  if (last) query.set('after', last.id)
  return trail.ask(async (signal) => {
    const { data, has_more } = await getJson<AuditAnswer>(`audit?${query}`, { signal })
    return { filter: wanted, pages: [...pages, data], hasMore: has_more }
  })
}

function Listed({ trail: shown }: { readonly trail: Trail }): VNode {
  const count = shown.pages.reduce((sum, page) => sum + page.length, 0)
  if (count === 0) {
    const isFiltered = Object.values(shown.filter).some((value) => value !== '')
    return html`
      <p class="empty">${isFiltered ? 'No change matches.' : 'Nothing has been changed yet.'}
        ${isFiltered && html` <${DisappearingButton} within="part" onClick=${filter.reset}>Show all<//>`}</p>
    `
  }
  const shownCount = `${formatNumber(count)} ${count === 1 ? 'change' : 'changes'} shown${shown.hasMore ? ', there are newer ones.' : ', up to the newest.'}`
  return html`
    <ol class="bare records" aria-label="Changes">
      ${shown.pages.map((records, page) => html`<${Page} key=${page} records=${records} />`)}
    </ol>
    <p class="row more">
      <span role="status">${shownCount}</span>
      ${
        shown.hasMore &&
        html`<${DisappearingButton} within="part" isBusy=${trail.isWaiting.value} onClick=${() => list(shown.filter, shown)}>More<//>`
      }
    </p>
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

/** The form of the filter. The event `change` of a field applies the filter, so the form has no button. */
function Filters(): VNode {
  const { since, action, account } = filter.typed.value
  return html`
    <form class="row filters" onInput=${filter.type} onChange=${filter.choose} onSubmit=${(event: Event) => event.preventDefault()}>
      <label>Since <input type="date" name="since" value=${since} /></label>
      <label>What
        <select name="action" value=${action}>
          <option value="">All</option>
          ${actionGroups.map(
            ([group, actions]) =>
              html`<optgroup label=${group}>${actions.map(([value, title]) => html`<option value=${value}>${title}</option>`)}</optgroup>`,
          )}
        </select>
      </label>
      ${
        may('admin') &&
        html`<label>Account <input name="account" value=${account} placeholder="all" autocomplete="off" spellcheck=${false} dir="auto" /></label>`
      }
    </form>
  `
}
