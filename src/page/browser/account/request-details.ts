import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import type { LedgerRecord } from '../base/ledger-record.ts'
import { goTo } from '../base/route.ts'
import { copy } from '../ui/copy.ts'
import { Dialog } from '../ui/dialog.ts'
import { DisappearingButton } from '../ui/disappearing-button.ts'
import { formatDuration, formatMoment, formatNumber } from '../ui/format.ts'
import { Fault, LatestRequest } from '../ui/latest-request.ts'
import { wordsOfState } from '../ui/request-states.ts'
import { characterParts, KeyName, Name, shown } from './names.ts'
import { askRequest, listed } from './request-rows.ts'

const asked = new LatestRequest<LedgerRecord | undefined>()

/** The dialog with all fields of one request. The dialog has its own address. */
export function RequestDetails({ id }: { readonly id: string }): VNode {
  const load = () => asked.ask((signal) => askRequest(id, signal))
  useEffect(() => {
    asked.forget()
    if (!listed(id) || listed(id)?.state === 'running') void load()
  }, [id])
  const answer = asked.answer.value
  const row = listed(id) ?? (answer?.id === id ? answer : undefined)
  const { isWaiting } = asked
  return html`
    <${Dialog} title="Request" class="request-details" onClose=${() => goTo('account', 'requests')}>
      <p><code>${shown(id)}</code> <button type="button" onClick=${() => copy(id, 'The id of the request')}>Copy the id</button></p>
      <${Fault} of=${asked} within="dialog" again=${load} />
      ${!row && isWaiting.value && html`<p role="status">Loading …</p>`}
      ${row && html`<${Facts} row=${row} />`}
      ${row?.state === 'running' && html`<p><${DisappearingButton} within="dialog" onClick=${load} isBusy=${isWaiting.value}>Look again<//></p>`}
    <//>
  `
}

function Facts({ row }: { readonly row: LedgerRecord }): VNode {
  const { title, meaning, kind } = wordsOfState(row.state)
  const { name, digest } =
    row.character === null ? { name: undefined, digest: undefined } : characterParts(row.character)
  const wholeTokens = `${formatNumber(row.prompt_tokens)} of the prompt, ${formatNumber(row.completion_tokens)} of the answer`
  return html`
    <dl class="facts">
      <${Fact} title="State"><span class=${`state ${kind}`}>${title}</span> <span class="faint">${meaning}</span><//>
      <${Fact} title="Came">${formatMoment(row.created)}<//>
      <${Fact} title="Key"><${KeyName} prefix=${row.key} /><//>
      <${Fact} title="Model asked for"><${Name} text=${row.model} isWhole /><//>
      <${Fact} title="Model that answered">${row.model_used === null ? 'none' : html`<${Name} text=${row.model_used} isWhole />`}<//>
      <${Fact} title="Character">${name === undefined ? 'none' : html`<${Name} text=${name} isWhole />`}<//>
      ${digest && html`<${Fact} title="Its card"><code>sha256:${digest}</code><//>`}
      <${Fact} title="Tokens">${wholeTokens} <span class="faint">(${row.tokens_exact ? 'counted by the model' : 'estimated here'})</span><//>
      <${Fact} title="First token after">${formatDuration(row.first_token_ms)}<//>
      <${Fact} title="Whole time">${row.state === 'running' ? '–' : formatDuration(row.total_ms)}<//>
      <${Fact} title="Asked again">${wordsOfRetries(row.retries)}<//>
      ${row.upstream_truncated !== null && html`<${Fact} title="Prompt was cut"><span class="fault">${wordsOfCut(row.upstream_truncated)}</span><//>`}
    </dl>
  `
}

function Fact({ title, children }: { readonly title: string; readonly children?: ComponentChildren }): VNode {
  return html`<div><dt>${title}</dt><dd>${children}</dd></div>`
}

function wordsOfRetries(retries: number): string {
  if (retries === 0) return 'never'
  return retries === 1 ? 'once' : `${formatNumber(retries)} times`
}

function wordsOfCut(cut: string): string {
  const [theirs = '', ours = ''] = cut.split('/')
  return `The model's server read ${formatNumber(Number(theirs))} tokens of a prompt that has about ${formatNumber(Number(ours))}: it has cut it. Give that model a larger context.`
}
