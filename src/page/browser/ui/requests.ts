import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { getJson } from '../base/api.ts'
import { ownValue } from '../base/own-value.ts'
import { formatDuration, formatMoment, formatNumber } from './format.ts'
import { Name, partsOfCharacter } from './names.ts'

/** A chat request in the ledger, as `GET /requests` lists it and `GET /requests/{id}` returns it. */
export interface LedgerRecord {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  /** The prefix of the key. */
  readonly key: string
  /** The model's id in the request. */
  readonly model: string
  readonly model_used: string | null
  readonly character: string | null
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly tokens_exact: boolean
  readonly first_token_ms: number | null
  readonly total_ms: number
  readonly retries: number
  readonly state: string
  readonly upstream_truncated: string | null
}

/** The ledger's record of a request of this account. @throws Failure 404 if the ledger does not have it */
export function recordOf(requestId: string, signal?: AbortSignal): Promise<LedgerRecord> {
  return getJson<LedgerRecord>(`requests/${encodeURIComponent(requestId)}`, signal ? { signal } : {})
}

/** The words for the state of a request. */
export interface StateWords {
  readonly title: string
  /** The meaning as a sentence. */
  readonly meaning: string
  readonly kind: 'good' | 'bad' | 'cut' | 'running'
}

const known: Readonly<Record<string, StateWords>> = {
  running: { kind: 'running', title: 'Running', meaning: 'The model is still answering.' },
  stop: { kind: 'good', title: 'Answered', meaning: 'The model answered to the end.' },
  length: {
    kind: 'cut',
    title: 'Cut at a limit',
    meaning: 'The answer reached the most tokens that it was allowed, and ended there.',
  },
  tool_calls: { kind: 'good', title: 'Called a tool', meaning: 'The model answered by calling tools of the caller.' },
  function_call: {
    kind: 'good',
    title: 'Called a function',
    meaning: 'The model answered by calling a function of the caller.',
  },
  content_filter: { kind: 'cut', title: 'Filtered', meaning: 'A filter of the model ended the answer.' },
  refused: {
    kind: 'bad',
    title: 'Refused',
    meaning: 'The request was wrong, or over a limit: no model answered it. The reply said why.',
  },
  upstream_error: { kind: 'bad', title: 'Model failed', meaning: 'The model or its server failed.' },
  client_gone: {
    kind: 'cut',
    title: 'Caller left',
    meaning: 'The caller closed the connection before the answer was whole.',
  },
  timeout: { kind: 'bad', title: 'Too slow', meaning: 'The model took longer than its time limit.' },
  interrupted: { kind: 'bad', title: 'Service stopped', meaning: 'The service stopped while the model was answering.' },
  key_revoked: {
    kind: 'bad',
    title: 'Key ended',
    meaning: 'Its key or account was revoked, expired or suspended while the model was answering.',
  },
  internal_error: {
    kind: 'bad',
    title: 'Fault here',
    meaning: 'The service has a fault; its log says more under the id of the request.',
  },
}

/** The states that a list can be filtered by, with their titles. */
export const stateTitles = Object.entries(known).map(([state, { title }]) => [state, title] as const)

/**
 * The words for a state. A newer service may send a state that this page does not know. Then the title is the name of the state.
 */
export function wordsOfState(state: string): StateWords {
  return ownValue(known, state) ?? { kind: 'cut', title: state, meaning: '' }
}

interface RequestFactsProps {
  readonly record: LedgerRecord
  /** The key, if more is known of it than its prefix. */
  readonly keyName?: ComponentChildren
}

/** All that the ledger knows of a request. */
export function RequestFacts({ record, keyName }: RequestFactsProps): VNode {
  const { title, meaning, kind } = wordsOfState(record.state)
  const { name, digest } = partsOfCharacter(record.character)
  const tokens = `${formatNumber(record.prompt_tokens)} of the prompt, ${formatNumber(record.completion_tokens)} of the answer`
  return html`
    <dl class="facts">
      <${Fact} title="State"><span class=${`state ${kind}`}>${title}</span> <span class="faint">${meaning}</span><//>
      <${Fact} title="Came">${formatMoment(record.created)}<//>
      <${Fact} title="Key">${keyName ?? html`<code>${record.key}…</code>`}<//>
      <${Fact} title="Model asked for"><${Name} text=${record.model} isWhole /><//>
      <${Fact} title="Model that answered">${record.model_used === null ? 'none' : html`<${Name} text=${record.model_used} isWhole />`}<//>
      <${Fact} title="Character">${name === undefined ? 'none' : html`<${Name} text=${name} isWhole />`}<//>
      ${digest && html`<${Fact} title="Its card"><code>sha256:${digest}</code><//>`}
      <${Fact} title="Tokens">${tokens} <span class="faint">(${record.tokens_exact ? 'counted by the model' : 'estimated here'})</span><//>
      <${Fact} title="First token after">${formatDuration(record.first_token_ms)}<//>
      <${Fact} title="Whole time">${record.state === 'running' ? '–' : formatDuration(record.total_ms)}<//>
      <${Fact} title="Asked again">${wordsOfRetries(record.retries)}<//>
      ${record.upstream_truncated !== null && html`<${Fact} title="Prompt was cut"><span class="fault">${wordsOfCut(record.upstream_truncated)}</span><//>`}
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

/** @param figures the upstream's and the service's token counts, such as `2048/8190` */
function wordsOfCut(figures: string): string {
  const [theirs = '', ours = ''] = figures.split('/')
  return `The model's server read ${formatNumber(Number(theirs))} tokens of a prompt that has about ${formatNumber(Number(ours))}: it has cut it. Give that model a larger context.`
}
