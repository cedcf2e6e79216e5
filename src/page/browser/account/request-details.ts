import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { goTo } from '../base/route.ts'
import { copy } from '../ui/copy.ts'
import { Dialog } from '../ui/dialog.ts'
import { DisappearingButton } from '../ui/disappearing-button.ts'
import { Fault, LatestRequest } from '../ui/latest-request.ts'
import { shown } from '../ui/names.ts'
import { type LedgerRecord, RequestFacts } from '../ui/requests.ts'
import { KeyName } from './key-names.ts'
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
    <${Dialog} title="Request" class="account-part" onClose=${() => goTo('account', 'requests')}>
      <p><code>${shown(id)}</code> <button type="button" onClick=${() => copy(id, 'The id of the request')}>Copy the id</button></p>
      <${Fault} of=${asked} within="dialog" again=${load} />
      ${!row && isWaiting.value && html`<p role="status">Loading …</p>`}
      ${row && html`<${RequestFacts} record=${row} keyName=${html`<${KeyName} prefix=${row.key} />`} />`}
      ${row?.state === 'running' && html`<p><${DisappearingButton} within="dialog" onClick=${load} isBusy=${isWaiting.value}>Look again<//></p>`}
    <//>
  `
}
