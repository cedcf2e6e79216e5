import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { place } from '../base/route.ts'
import { identity } from '../base/session.ts'
import { stateTitles } from '../ui/request-states.ts'
import { shown } from './names.ts'
import { ListPart } from './paged-list.ts'
import { RequestDetails } from './request-details.ts'
import { requests } from './request-rows.ts'
import { RequestTable } from './request-table.ts'

/** The chat requests of an account. */
export function View(): VNode {
  const { from, to, model, state } = requests.typed.value
  const pages = requests.answer.value?.pages ?? []
  const models = new Set(pages.flat().map((row) => row.model))
  const fields = html`
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
  `
  const id = place.value[2]
  return html`
    <${ListPart} list=${requests} name="requests" title="Requests" one="request" many="requests"
      help="What became of each chat request. Texts are never kept. Choose a request for all that is known of it."
      nothing="This account has no chat request yet." more=", there are more." end="." fields=${fields} anyAccount=${identity.value?.account}>
      <${RequestTable} pages=${pages} />
    <//>
    ${id && html`<${RequestDetails} key=${id} id=${id} />`}
  `
}
