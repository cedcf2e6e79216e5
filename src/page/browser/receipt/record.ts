import { html } from 'htm/preact'
import type { VNode } from 'preact'
import type { LedgerRecord } from '../base/ledger-record.ts'
import { formatDuration, formatMoment, formatNumber } from '../ui/format.ts'
import { type Loading, Waiting } from '../ui/loading.ts'
import { clip } from '../ui/long-text.ts'
import { wordsOfState } from '../ui/request-states.ts'

/** The ledger's record of a request. */
export function Record({ loading }: { readonly loading: Loading<LedgerRecord | undefined> }): VNode {
  const { value: record, failure } = loading
  return html`
    <section>
      <h3>What became of it</h3>
      ${
        failure?.status === 404
          ? html`<p>The ledger has nothing of this request any more. <button type="button" onClick=${loading.again}>Look again</button></p>`
          : record
            ? html`<${Facts} record=${record} again=${loading.again} />`
            : html`<${Waiting} loading=${loading} what="the ledger’s record" />`
      }
    </section>
  `
}

function Facts({ record, again }: { readonly record: LedgerRecord; readonly again: () => void }): VNode {
  const isRunning = record.state === 'running'
  const { title: state, meaning } = wordsOfState(record.state)
  const rows: readonly (readonly [title: string, value: unknown])[] = [
    [
      'State',
      html`${clip(state)} <span class="faint">${meaning}</span> ${isRunning && html`<button type="button" onClick=${again}>Look again</button>`}`,
    ],
    ['Asked for', html`<bdi>${clip(record.model)}</bdi>`],
    ['Answered by', html`<bdi>${record.model_used === null ? 'no model' : clip(record.model_used)}</bdi>`],
    ['Begun', formatMoment(record.created)],
    ['First token after', formatDuration(record.first_token_ms)],
    ['All of it took', isRunning ? '–' : formatDuration(record.total_ms)],
    [
      'Tokens',
      `${formatNumber(record.prompt_tokens)} read, ${formatNumber(record.completion_tokens)} written, ${record.tokens_exact ? 'as the model counted them' : 'estimated'}`,
    ],
    [
      'Tried again',
      record.retries === 0 ? 'no' : record.retries === 1 ? 'once' : `${formatNumber(record.retries)} times`,
    ],
    ['Key', html`<code>${record.key}…</code>`],
    ['Request', html`<code>${clip(record.id)}</code>`],
  ]
  return html`
    ${record.upstream_truncated !== null && html`<p class="fault">${truncation(record.upstream_truncated)}</p>`}
    <dl class="facts">${rows.map(([title, value]) => html`<div key=${title}><dt>${title}</dt><dd>${value}</dd></div>`)}</dl>
  `
}

/** @param figures the upstream's and the service's token counts, such as `2048/8190` */
function truncation(figures: string): string {
  const [theirs, ours] = figures.split('/')
  return `The model has read only ${theirs} of about ${ours} tokens: its server has cut the prompt. Give it a larger context window.`
}
