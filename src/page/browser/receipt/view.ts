import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { copy } from '../ui/copy.ts'
import { Dialog } from '../ui/dialog.ts'
import { formatNumber } from '../ui/format.ts'
import { type Loading, useLoading, Waiting } from '../ui/loading.ts'
import { clip } from '../ui/long-text.ts'
import { partsOfCharacter } from '../ui/names.ts'
import { type LedgerRecord, RequestFacts, recordOf } from '../ui/requests.ts'
import { LoreTable } from './lore.ts'
import { Messages } from './messages.ts'
import { type ChatBody, knownDifferences, type MadePrompt, makePrompt, type Prompt } from './prompt.ts'
import { Sections } from './sections.ts'

interface ReceiptProps {
  /** The body for `/chat/completions`. If this property becomes another object, the prompt is loaded again. */
  readonly request: ChatBody
  /** The `x-request-id` of the reply. Null if there is no successful reply. Missing if the request was not sent. */
  readonly requestId?: string | null
}

/** A dialog with the prompt of a reply. */
export function Receipt({ request, requestId, onClose }: ReceiptProps & { readonly onClose: () => void }): VNode {
  return html`
    <${Dialog} title="What the model was told" onClose=${onClose}>
      <${PromptReceipt} request=${request} requestId=${requestId} />
    <//>
  `
}

/** The prompt of a request, and its record in the ledger. */
export function PromptReceipt({ request, requestId }: ReceiptProps): VNode {
  const making = useLoading((signal) => makePrompt(request, signal), [request])
  const recorded = useLoading(
    async (signal) => (requestId ? await recordOf(requestId, signal) : undefined),
    [requestId],
  )
  return html`
    <div class="receipt" aria-busy=${!making.value && !making.failure}>
      ${
        making.value
          ? html`
            <${Summary} made=${making.value} />
            <${Caveat} requestId=${requestId} differences=${knownDifferences(making.value, recorded.value)} />
            <${Sections} tokens=${making.value.prompt.tokens} />
            <${LeftOut} prompt=${making.value.prompt} />
            <${LoreTable} lore=${making.value.prompt.lore} />
          `
          : html`<${Waiting} loading=${making} what="the prompt" />`
      }
      ${requestId && html`<${Record} loading=${recorded} />`}
      ${making.value && html`<${ExactMessages} prompt=${making.value.prompt} />`}
    </div>
  `
}

function Summary({ made: { prompt, madeFor } }: { readonly made: MadePrompt }): VNode {
  const { total, exact } = prompt.tokens
  const { name, digest } = partsOfCharacter(prompt.character)
  return html`
    <p>
      <strong>${exact ? '' : 'about '}${formatNumber(total)} tokens</strong>
      ${' '}in ${prompt.messages.length === 1 ? 'one message' : `${formatNumber(prompt.messages.length)} messages`}
      ${' '}for the model <bdi>${clip(madeFor || prompt.model)}</bdi>${name === undefined ? ', no character' : html`, as <bdi>${clip(name)}</bdi>`}
      ${digest && html`${' '}<span class="faint">(card sha256:${digest.slice(0, 8)}…)</span>`}.
      ${!exact && html`${' '}<span class="faint">This model has a tokenizer of its own, so that the figures are estimates.</span>`}
    </p>
  `
}

/** Explains how this prompt may differ from the prompt that was sent. */
function Caveat(props: Pick<ReceiptProps, 'requestId'> & { readonly differences: readonly string[] }): VNode {
  const { requestId, differences } = props
  const general =
    requestId === undefined
      ? 'No model was asked. What depends on the time, on dice or on chance is different with each request.'
      : 'The service keeps no texts: this is the same request, composed again now. What depends on the time, on dice or on chance may have been different.'
  return html`
    <div class=${differences.length > 0 ? 'remark caveat grave' : 'remark caveat'}>
      ${requestId === null && html`<p>This request has no successful reply, but a model may have got it.</p>`}
      <p>${general}</p>
      ${
        differences.length > 0 &&
        html`
          <p><strong>It is not quite what was sent:</strong></p>
          <ul>${differences.map((sentence) => html`<li><bdi>${clip(sentence, 400)}</bdi></li>`)}</ul>
        `
      }
    </div>
  `
}

/** The parts that did not fit, and unknown macros. */
function LeftOut({ prompt: { dropped, unknown_macros: macros } }: { readonly prompt: Prompt }): VNode {
  const counts = [
    counted(dropped.messages, 'old message', 'old messages'),
    counted(dropped.examples, 'example dialogue', 'example dialogues'),
    counted(dropped.lore, 'lore entry', 'lore entries'),
  ].filter((text) => text !== '')
  return html`
    <section>
      <h3>Left out</h3>
      <p>${
        counts.length === 0
          ? 'Nothing: all of it fits.'
          : `${counts.join(', ')}: more than the model’s context or a lorebook’s budget holds.`
      }</p>
      ${
        macros.length > 0 &&
        html`
          <p>Unknown macros, which stand in the prompt as they are written:</p>
          <ul class="bare tags">${macros.map((macro) => html`<li><code class="tag" dir="auto">{{${clip(macro)}}}</code></li>`)}</ul>
        `
      }
    </section>
  `
}

/** The ledger's record of the request. */
function Record({ loading }: { readonly loading: Loading<LedgerRecord | undefined> }): VNode {
  const { value: record, failure, again } = loading
  const look = html`<button type="button" onClick=${again}>Look again</button>`
  return html`
    <section>
      <h3>What became of it</h3>
      ${failure?.status === 404 && html`<p>The ledger has nothing of this request any more. ${look}</p>`}
      ${failure?.status !== 404 && !record && html`<${Waiting} loading=${loading} what="the ledger’s record" />`}
      ${record?.state === 'running' && html`<p>${look}</p>`}
      ${record && html`<${RequestFacts} record=${record} /><p class="faint">Request <code>${clip(record.id)}</code></p>`}
    </section>
  `
}

function ExactMessages({ prompt: { messages } }: { readonly prompt: Prompt }): VNode {
  return html`
    <section>
      <div class="row spread">
        <h3>The exact messages</h3>
        <button type="button" onClick=${() => copy(JSON.stringify(messages, undefined, 2), 'The prompt')}>Copy as JSON</button>
      </div>
      <${Messages} messages=${messages} />
    </section>
  `
}

function counted(count: number, one: string, many: string): string {
  return count === 0 ? '' : `${formatNumber(count)} ${count === 1 ? one : many}`
}
