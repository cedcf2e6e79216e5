import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { place } from '../base/route.ts'
import { identity, may } from '../base/session.ts'
import { formatNumber } from '../ui/format.ts'
import { stateTitles } from '../ui/request-states.ts'
import { DisappearingButton } from './disappearing-button.ts'
import { Filter } from './filter.ts'
import { loadKeyNames, shown } from './names.ts'
import { RequestDetails } from './request-details.ts'
import { listMore, listRequests, type RequestFilter, type RequestList, requests } from './request-rows.ts'
import { RequestTable } from './request-table.ts'

const filter = new Filter<RequestFilter>({ from: '', to: '', model: '', state: '', account: '' })

/** The chat requests of an account. */
export function View(): VNode {
  const wanted = filter.chosen.value
  useEffect(() => void listRequests(wanted), [wanted])
  useEffect(() => void loadKeyNames(), [])
  const { answer, failure, isWaiting } = requests
  const again = () => listRequests(wanted)
  const id = place.value[2]
  return html`
    <section class="account-part" aria-labelledby="requests-title" aria-busy=${isWaiting.value}>
      <div class="row spread title">
        <h2 id="requests-title" tabindex="-1">Requests</h2>
        <button type="button" onClick=${again}>Reload</button>
      </div>
      <p class="help">What became of each chat request. Texts are never kept. Choose a request for all that is known of it.</p>
      <${Filters} />
      ${
        failure.value &&
        html`<p class="fault" role="alert">${failure.value.message} <${DisappearingButton} within="part" onClick=${again} isBusy=${isWaiting.value}>Try again<//></p>`
      }
      ${!answer.value && isWaiting.value && html`<p class="waiting" role="status">Loading …</p>`}
      ${answer.value && html`<${Listed} list=${answer.value} />`}
      ${id && html`<${RequestDetails} key=${id} id=${id} />`}
    </section>
  `
}

function Listed({ list }: { readonly list: RequestList }): VNode {
  const count = list.pages.reduce((sum, page) => sum + page.length, 0)
  if (count === 0) {
    const isFiltered = Object.values(list.filter).some((value) => value !== '')
    return html`
      <p class="empty">${isFiltered ? 'No request matches.' : 'This account has no chat request yet.'}
        ${isFiltered && html` <${DisappearingButton} within="part" onClick=${filter.reset}>Show all<//>`}</p>
    `
  }
  const shownCount = `${formatNumber(count)} ${count === 1 ? 'request' : 'requests'} shown${list.hasMore ? ', there are more.' : '.'}`
  return html`
    <${RequestTable} list=${list} />
    <p class="row more">
      <span role="status">${shownCount}</span>
      ${list.hasMore && html`<${DisappearingButton} within="part" isBusy=${requests.isWaiting.value} onClick=${() => listMore(list)}>More<//>`}
    </p>
  `
}

/** The form of the filter. The event `change` of a field applies the filter, so the form has no button. */
function Filters(): VNode {
  const { from, to, model, state, account } = filter.typed.value
  const models = new Set(requests.answer.value?.pages.flat().map((row) => row.model))
  return html`
    <form class="row filters" onInput=${filter.type} onChange=${filter.choose} onSubmit=${(event: Event) => event.preventDefault()}>
      <label>From <input type="date" name="from" value=${from} /></label>
      <label>To <input type="date" name="to" value=${to} /></label>
      <label>Model <input name="model" value=${model} list="request-models" autocomplete="off" spellcheck=${false} dir="auto" /></label>
      <datalist id="request-models">${[...models].map((name) => html`<option key=${name} value=${name}>${shown(name)}</option>`)}</datalist>
      <label>State
        <select name="state" value=${state}>
          <option value="">All</option>
          ${stateTitles.map(([value, title]) => html`<option value=${value}>${title}</option>`)}
        </select>
      </label>
      ${
        may('admin') &&
        html`<label>Account <input name="account" value=${account} placeholder=${identity.value?.account} autocomplete="off" spellcheck=${false} dir="auto" /></label>`
      }
    </form>
  `
}
