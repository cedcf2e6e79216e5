import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { getJson } from '../base/api.ts'
import { identity } from '../base/session.ts'
import { formatMoment } from '../ui/format.ts'
import { LatestRequest } from '../ui/latest-request.ts'
import { formatAmount, type Limit, titleOf } from './limit-names.ts'
import { Part } from './part.ts'

const limits = new LatestRequest<readonly Limit[]>()

/** The key and its account, and the use of their limits. */
export function View(): VNode {
  useEffect(() => void load(), [])
  const { value: all } = limits.answer
  return html`
    <${Signed} />
    <${Part} name="limits" title="Limits" request=${limits} load=${load}
      help="Both hold for a request: the limits of the account, which all its keys share, and those of the key.">
      ${
        all &&
        html`<div class="sides">
          <${Side} title="Account" limits=${all.filter(({ of }) => of === 'account')} />
          <${Side} title="This key" limits=${all.filter(({ of }) => of === 'key')} />
        </div>`
      }
    <//>
  `
}

function load(): Promise<void> {
  return limits.ask(async (signal) => (await getJson<{ readonly data: readonly Limit[] }>('limits', { signal })).data)
}

function Signed(): VNode | null {
  const { value: key } = identity
  if (!key) return null
  return html`
    <dl class="row panel signed">
      <div><dt>Account</dt><dd dir="auto">${key.account}</dd></div>
      <div><dt>Key</dt><dd><code>${key.prefix}…</code> <bdi>${key.name}</bdi></dd></div>
      <div><dt>It may</dt><dd>${key.scopes.map((scope) => html`<span key=${scope} class="tag">${scope}</span> `)}</dd></div>
      <div><dt>It ends</dt><dd>${key.expires === null ? 'never' : formatMoment(key.expires)}</dd></div>
    </dl>
  `
}

function Side({ title, limits }: { readonly title: string; readonly limits: readonly Limit[] }): VNode {
  return html`
    <section class="panel side">
      <h3>${title}</h3>
      <ul class="bare">${limits.map((limit) => html`<li key=${limit.limit}><${Line} limit=${limit} of=${title} /></li>`)}</ul>
    </section>
  `
}

/** If at least this share of a limit is used, the limit is shown as nearly used up. */
const near = 0.8

function Line({ limit: { limit, value, used, resets }, of }: { readonly limit: Limit; readonly of: string }): VNode {
  const title = titleOf(limit)
  if (value === null) {
    return html`<span class="name">${title}</span><span class="amount faint">no limit${usedWithout(limit, used)}</span>`
  }
  const amount = used ?? 0
  // A limit of 0 is always used up.
  const part = value === 0 ? 1 : Math.min(1, amount / value)
  const state = part >= 1 ? 'full' : part >= near ? 'near' : ''
  const text = `${formatAmount(limit, amount)} of ${formatAmount(limit, value)}`
  return html`
    <span class="name">${title}</span><span class="amount">${text}${state === 'full' && html` <strong class="fault">used up</strong>`}</span>
    <div class=${`meter ${state}`} role="meter" aria-label=${`${title}, ${of}`} aria-valuemin="0" aria-valuemax=${Math.max(value, 1)}
      aria-valuenow=${Math.min(amount, Math.max(value, 1))} aria-valuetext=${text}>
      <div style=${{ inlineSize: `${part * 100}%` }}></div>
    </div>
    ${resets !== null && html`<span class="resets faint">All of it is back on ${formatMoment(resets)}.</span>`}
  `
}

function usedWithout(limit: string, used: number | null): string {
  // Without a limit per minute, the service does not count the use of the minute.
  if (limit.endsWith('_per_minute')) return ''
  return used === null ? ', more than 10,000 used' : `, ${formatAmount(limit, used)} used`
}
