import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useMemo } from 'preact/hooks'
import { addressOf, place } from '../base/route.ts'
import { identity } from '../base/session.ts'
import { DisappearingButton } from '../ui/disappearing-button.ts'
import { formatDuration, formatMoment, formatNumber } from '../ui/format.ts'
import { Character, Name, shown } from '../ui/names.ts'
import { sayDone, sayFailure } from '../ui/notices.ts'
import { type LedgerRecord, stateTitles, wordsOfState } from '../ui/requests.ts'
import { ListPart } from './paged-list.ts'
import { RequestDetails } from './request-details.ts'
import { askRequest, requests } from './request-rows.ts'

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

/** The titles of the columns, with their widths on a wide screen. Columns without a width share the rest. */
const columns = [
  ['Came', '13rem'],
  ['Model'],
  ['Character'],
  ['Tokens', '9rem'],
  ['First token', '7rem'],
  ['Whole time', '7rem'],
  ['State', '11rem'],
]

/** A table of requests. On a narrow screen each row looks like a card. With the ARIA roles, screen readers still read a table. */
function RequestTable({ pages }: { readonly pages: readonly (readonly LedgerRecord[])[] }): VNode {
  return html`
    <table class="request-table" role="table">
      <caption class="faint">Chat requests, the newest first</caption>
      <thead role="rowgroup">
        <tr role="row">${columns.map(([title, inlineSize]) => html`<th key=${title} style=${{ inlineSize }} scope="col" role="columnheader">${title}</th>`)}</tr>
      </thead>
      ${pages.map((rows, page) => html`<${Page} key=${page} rows=${rows} />`)}
    </table>
  `
}

/** The rows of a page, which are rendered again only when they have changed. */
function Page({ rows }: { readonly rows: readonly LedgerRecord[] }): VNode {
  return useMemo(
    () => html`<tbody role="rowgroup">${rows.map((row) => html`<${Row} key=${row.id} row=${row} />`)}</tbody>`,
    [rows],
  )
}

function Row({ row }: { readonly row: LedgerRecord }): VNode {
  const { title, kind } = wordsOfState(row.state)
  const isRunning = row.state === 'running'
  const moment = formatMoment(row.created)
  return html`
    <tr role="row">
      <th scope="row" role="rowheader"><a href=${addressOf('account', 'requests', row.id)}>${moment}</a></th>
      <td role="cell" data-title="Model"><${Models} row=${row} /></td>
      <td role="cell" data-title="Character">${row.character === null ? html`<span class="faint">–</span>` : html`<${Character} written=${row.character} />`}</td>
      <td role="cell" data-title="Tokens"><${Tokens} row=${row} /></td>
      <td role="cell" data-title="First token">${formatDuration(row.first_token_ms)}</td>
      <td role="cell" data-title="Whole time">${isRunning ? '–' : formatDuration(row.total_ms)}</td>
      <td role="cell" data-title="State">
        <span class="row states">
          <span class=${`state ${kind}`}>${title}</span>
          ${row.retries > 0 && html`<span class="tag">asked ${formatNumber(row.retries + 1)} times</span>`}
          ${row.upstream_truncated !== null && html`<span class="tag fault">prompt was cut</span>`}
          ${isRunning && html`<${DisappearingButton} within="row" label=${`Look again at the request of ${moment}`} onClick=${() => refreshRow(row)}>Look again<//>`}
        </span>
      </td>
    </tr>
  `
}

function Models({ row: { model, model_used } }: { readonly row: LedgerRecord }): VNode {
  const answered = model_used !== null && model_used !== model
  return html`<span><${Name} text=${model} />${answered && html` <span class="faint">→ <${Name} text=${model_used} /></span>`}</span>`
}

function Tokens({ row }: { readonly row: LedgerRecord }): VNode {
  const mark = row.tokens_exact ? '' : html`<abbr title="Estimated: the model did not count them">≈</abbr> `
  return html`<span class="token-counts">${mark}${formatNumber(row.prompt_tokens)} + ${formatNumber(row.completion_tokens)}</span>`
}

async function refreshRow({ id }: LedgerRecord): Promise<void> {
  try {
    const row = await askRequest(id)
    sayDone(row ? `The request: ${wordsOfState(row.state).title}.` : 'The request is not there any more.')
  } catch (error) {
    sayFailure(error)
  }
}
