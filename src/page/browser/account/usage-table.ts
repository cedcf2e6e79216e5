import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { formatNumber } from '../ui/format.ts'
import { Character, KeyName, Name } from './names.ts'
import { formatDay } from './period.ts'
import { type Grouping, groupOf, totalOf, type Usage, type UsageLine } from './usage-lines.ts'

const titles: Readonly<Record<Grouping, string>> = { day: 'Day', model: 'Model', key: 'Key', character: 'Character' }

/**
 * The figures as a table. Each group except days has a bar for its tokens. On a narrow screen the layout is different. With the
 * ARIA roles, screen readers still read a table.
 */
export function UsageTable({ usage }: { readonly usage: Usage }): VNode {
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
  const widthOf = (part: number) => ({ inlineSize: `${(part / max) * 100}%` })
  return html`
    <span class="token-bar" aria-hidden="true">
      <span class="prompt" style=${widthOf(line.prompt_tokens)}></span>
      <span class="completion" style=${widthOf(line.completion_tokens)}></span>
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
