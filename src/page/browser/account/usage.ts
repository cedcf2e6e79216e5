import { signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useMemo } from 'preact/hooks'
import { getJson } from '../base/api.ts'
import { addressOf } from '../base/route.ts'
import { may } from '../base/session.ts'
import { formatNumber } from '../ui/format.ts'
import { LatestRequest } from '../ui/latest-request.ts'
import { Character, Name } from '../ui/names.ts'
import { DayPlot } from './day-plot.ts'
import { KeyName, loadKeyNames } from './key-names.ts'
import { Part } from './part.ts'
import { daysOf, formatDay, lastDays, type Period, type Span } from './period.ts'
import { everyDay, type Grouping, groupOf, totalOf, type Usage, type UsageLine } from './usage-lines.ts'

const spans: readonly (readonly [Span, string])[] = [
  ['week', 'Last 7 days'],
  ['month', 'Last 30 days'],
  ['own', 'From … to'],
]

const groupings: readonly (readonly [Grouping, string])[] = [
  ['day', 'Day'],
  ['model', 'Model'],
  ['key', 'Key'],
  ['character', 'Character'],
]

const by = signal<Grouping>('day')
const period = signal<Period>({ span: 'month', from: '', to: '' })
const usage = new LatestRequest<Usage>()

/** The usage of the account by day, model, key or character, as a plot and as a table. */
export function View(): VNode {
  const wanted = `${by.value} ${JSON.stringify(period.value)}`
  useEffect(() => void load(), [wanted])
  useEffect(() => void loadKeyNames(), [])
  const { value: answer } = usage.answer
  return html`
    <${Part} name="usage" title="Usage" help="The chat requests of all keys of this account that have ended." request=${usage} load=${load} tools=${null} above=${html`<${Chooser} />`}>
      ${answer && html`<${Shown} usage=${answer} />`}
    <//>
  `
}

function load(): Promise<void> {
  const grouping = by.value
  const { span } = period.value
  const { from, to } = daysOf(period.value)
  const query = new URLSearchParams({ by: grouping })
  if (from) query.set('from', from)
  // Only a custom period sends its end. For other periods the service uses its own clock, because the clock of this device may be
  // wrong.
  if (to && span === 'own') query.set('to', to)
  return usage.ask(async (signal) => {
    const found = await getJson<UsageAnswer>(`usage?${query}`, { signal })
    return { by: grouping, from, to, lines: found.data, hasMore: found.has_more }
  })
}

interface UsageAnswer {
  readonly data: readonly UsageLine[]
  readonly has_more: boolean
}

/** The form for the period and the grouping. Each change is applied immediately. */
function Chooser(): VNode {
  const { span, from, to } = period.value
  const setDay = (name: 'from' | 'to') => (event: Event) => {
    if (event.currentTarget instanceof HTMLInputElement) {
      period.value = { ...period.value, [name]: event.currentTarget.value }
    }
  }
  return html`
    <form class="row filters" onSubmit=${(event: Event) => event.preventDefault()}>
      <fieldset class="row choice">
        <legend>Period</legend>
        ${spans.map(([value, title]) => html`<${Choice} name="span" title=${title} isChosen=${span === value} onChoose=${() => choose(value)} />`)}
      </fieldset>
      ${
        span === 'own' &&
        html`
          <label>From <input type="date" value=${from} onInput=${setDay('from')} /></label>
          <label>To <input type="date" value=${to} onInput=${setDay('to')} /></label>
        `
      }
      <fieldset class="row choice">
        <legend>By</legend>
        ${groupings.map(
          ([value, title]) =>
            html`<${Choice} name="by" title=${title} isChosen=${by.value === value} onChoose=${() => (by.value = value)} />`,
        )}
      </fieldset>
    </form>
  `
}

/** Sets the period. A custom period starts with the days that were shown before. */
function choose(span: Span): void {
  period.value =
    span === 'own' ? { span, ...lastDays(period.value.span === 'week' ? 7 : 30) } : { ...period.value, span }
}

interface ChoiceProps {
  readonly name: string
  readonly title: string
  readonly isChosen: boolean
  readonly onChoose: () => void
}

function Choice({ name, title, isChosen, onChoose }: ChoiceProps): VNode {
  return html`<label><input type="radio" name=${name} checked=${isChosen} onChange=${onChoose} /><span>${title}</span></label>`
}

function Shown({ usage: shown }: { readonly usage: Usage }): VNode {
  const days = useMemo(() => (shown.by === 'day' ? everyDay(shown) : []), [shown])
  if (shown.lines.length === 0) {
    return html`
      <p class="empty">No chat request has ended in this time. ${may('chat') ? html`<a href=${addressOf('chat')}>Chat</a>, or choose` : 'Choose'} another time.</p>
    `
  }
  return html`
    <${Totals} usage=${shown} />
    ${
      shown.hasMore &&
      html`<p class="empty more-told" role="status">There are more lines than these ${formatNumber(shown.lines.length)}, which the sums do not have. Choose a shorter time to see all.</p>`
    }
    ${days.length > 0 && html`<${DayPlot} days=${days} />`}
    <${UsageTable} usage=${shown} />
  `
}

function Totals({ usage: { lines } }: { readonly usage: Usage }): VNode {
  const total = totalOf(lines)
  const figures = [
    ['Requests', total.requests],
    ['Failed', total.failed],
    ['Prompt tokens', total.prompt_tokens],
    ['Completion tokens', total.completion_tokens],
  ] as const
  return html`
    <dl class="totals">
      ${figures.map(([title, value]) => html`<div class="panel"><dt>${title}</dt><dd>${formatNumber(value)}</dd></div>`)}
    </dl>
  `
}

const titles: Readonly<Record<Grouping, string>> = { day: 'Day', model: 'Model', key: 'Key', character: 'Character' }

/**
 * The figures as a table. Each group except days has a bar for its tokens. On a narrow screen the layout is different. With the
 * ARIA roles, screen readers still read a table.
 */
function UsageTable({ usage }: { readonly usage: Usage }): VNode {
  const { by, lines } = usage
  const max = Math.max(1, ...lines.map(tokensOf))
  return html`
    <div class="scroll" role="region" aria-label="Usage as a table" tabindex="0">
      <table class="usage-table" role="table">
        <caption class="faint">${captionOf(usage)}</caption>
        <thead role="rowgroup">
          <tr role="row">
            <th scope="col" role="columnheader">${titles[by]}</th>
            <th scope="col" role="columnheader" class="number">Requests</th>
            <th scope="col" role="columnheader" class="number">Failed</th>
            <th scope="col" role="columnheader" class="number">Prompt tokens</th>
            <th scope="col" role="columnheader" class="number">Completion tokens</th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          ${lines.map(
            (line) => html`
              <tr role="row" key=${groupOf(line, by)}>
                <th scope="row" role="rowheader"><${GroupName} line=${line} by=${by} />${by !== 'day' && html`<${TokenBar} line=${line} max=${max} />`}</th>
                <${Figures} line=${line} />
              </tr>
            `,
          )}
        </tbody>
        <tfoot role="rowgroup">
          <tr role="row"><th scope="row" role="rowheader">All</th><${Figures} line=${totalOf(lines)} /></tr>
        </tfoot>
      </table>
    </div>
  `
}

function tokensOf(line: UsageLine): number {
  return line.prompt_tokens + line.completion_tokens
}

function captionOf({ by, from, to }: Usage): string {
  const period = [from && ` from ${formatDay(from)}`, to && ` to ${formatDay(to)}`].join('')
  return `Usage by ${by}${period}. Days are those of UTC.`
}

function GroupName({ line, by }: { readonly line: UsageLine; readonly by: Grouping }): VNode {
  const group = groupOf(line, by)
  if (group === null) return html`<span class="faint">No character</span>`
  if (by === 'day') return html`<span class="day">${formatDay(group)}</span>`
  if (by === 'key') return html`<${KeyName} prefix=${group} />`
  return by === 'character' ? html`<${Character} written=${group} />` : html`<${Name} text=${group} />`
}

/** The bar for the tokens of a group. It is hidden from screen readers, since the table has the figures. */
function TokenBar({ line, max }: { readonly line: UsageLine; readonly max: number }): VNode {
  const look = (part: number, colour: string) => ({
    inlineSize: `${(part / max) * 100}%`,
    background: `var(${colour})`,
  })
  return html`
    <span class="token-bar" aria-hidden="true">
      <span style=${look(line.prompt_tokens, '--plot-prompt')}></span>
      <span style=${look(line.completion_tokens, '--plot-completion')}></span>
    </span>
  `
}

function Figures({ line }: { readonly line: UsageLine }): VNode {
  return html`
    <td role="cell" class="number">${formatNumber(line.requests)}</td>
    <td role="cell" class=${line.failed > 0 ? 'number fault' : 'number'}>${formatNumber(line.failed)}</td>
    <td role="cell" class="number">${formatNumber(line.prompt_tokens)}</td>
    <td role="cell" class="number">${formatNumber(line.completion_tokens)}</td>
  `
}
