import type { Cost } from './measure.ts'
import type { Row } from './row.ts'
import type { Kind } from './watch.ts'

/** One line of the table at the end: an attack on the checkout under test, and on the earlier checkout if BEFORE names one. */
export interface Line {
  readonly group: string
  readonly row: Row
  readonly now: Cost
  readonly before: Cost | undefined
  /** The memory above idle after the calm, in bytes. NaN until it is measured; undefined if the service stayed busy. */
  readonly calm: number | undefined
  readonly calmBefore: number | undefined
}

const megabyte = 1024 ** 2

/** The limits of the figures, in milliseconds, bytes and seconds. */
const bars = {
  held: { usual: 50, largest: 150 },
  waits: { usual: 100, largest: 250 },
  memory: 256 * megabyte,
  calm: 64 * megabyte,
  seconds: 30,
}
/** With more attackers than this, the latencies of bystanders are shown but have no limit. */
const maxJudged = 16

const kinds: readonly Kind[] = ['livez', 'plants', 'stream']

/** The limits that a cost exceeds, a word for each. */
export function missesOf(row: Row, cost: Cost): readonly string[] {
  const size = row.isLargest ? 'largest' : 'usual'
  const misses: string[] = []
  if (cost.held > bars.held[size]) misses.push('held')
  for (const kind of kinds) {
    if (cost.attackers > maxJudged) continue
    if (!(excess(cost, kind) <= bars.waits[size])) misses.push(kind)
    if (cost.watched[kind].refused > 0) misses.push(`${kind} refused`)
  }
  if (cost.memory > bars.memory) misses.push('memory')
  if (cost.seconds > bars.seconds || !cost.answers.every((answer) => isClear(row, answer.status))) misses.push('answer')
  if (cost.goesOn) misses.push('goes on')
  return misses
}

/** Whether the memory above idle after the calm exceeds its limit. @param calm bytes; undefined if the service stayed busy */
export function isTooMuch(calm: number | undefined): boolean {
  return calm === undefined || calm > bars.calm
}

/**
 * Whether a status is correct: a success, a refusal that the caller understands, or with a bad upstream an error about the
 * upstream.
 */
function isClear(row: Row, status: number | null): boolean {
  if (status === null) return false
  return status < 500 || status === 503 || (row.upstream !== undefined && [502, 504].includes(status))
}

function excess({ quiet, watched }: Cost, kind: Kind): number {
  // A stream without any chunk was blocked all the time.
  if (watched[kind].count === 0) return Number.POSITIVE_INFINITY
  return watched[kind].p999 - quiet[kind].p999
}

/** The worst figure of a line, in proportion to its limit. */
export function badness({ row, now, calm }: Line): number {
  const size = row.isLargest ? 'largest' : 'usual'
  return Math.max(
    now.held / bars.held[size],
    now.memory / bars.memory,
    (calm || 0) / bars.calm,
    now.seconds / bars.seconds,
    ...(now.attackers > maxJudged ? [] : kinds.map((kind) => excess(now, kind) / bars.waits[size])),
  )
}

/** The name of a row in the table. */
export function labelOf({ name, isOfIssue }: Row): string {
  return isOfIssue ? `${name} (issue)` : name
}

/** The lines as the cells of a table, by the names of its columns. */
export function cellsOf(line: Line): Readonly<Record<string, string>> {
  const both = (show: (cost: Cost, calm: number | undefined) => string) => {
    const now = show(line.now, line.calm)
    return line.before ? `${show(line.before, line.calmBefore)} → ${now}` : now
  }
  const waits = (kind: Kind) => both((cost) => waitsOf(cost, kind))
  return {
    attack: labelOf(line.row),
    attackers: String(line.now.attackers),
    'held ms': both(({ held, isLeast }) => `${isLeast ? '≥ ' : ''}${Math.round(held)}`),
    'gc ms': both(({ collections }) => rounded(collections)),
    'CPU s': both(({ cpu }) => cpu.toFixed(1)),
    'no core ms': both(({ queued }) => rounded(queued)),
    'livez ms': waits('livez'),
    'plants ms': waits('plants'),
    'stream ms': waits('stream'),
    MB: both(({ memory }) => rounded(memory / megabyte)),
    'MB, calm': both((_cost, calm) => rounded((calm ?? Number.NaN) / megabyte)),
    s: both(({ seconds }) => seconds.toFixed(1)),
    answered: both(answersOf),
    misses: both((cost, calm) => [...missesOf(line.row, cost), ...(isTooMuch(calm) ? ['calm'] : [])].join(', ') || '–'),
  }
}

/** The median, the p99 and the p99.9 of latencies, and by how much the p99.9 exceeds the p99.9 without attackers. */
function waitsOf(cost: Cost, kind: Kind): string {
  const { p50, p99, p999, refused } = cost.watched[kind]
  const above = excess(cost, kind)
  const sign = above >= 0 ? '+' : ''
  const figures = [p50, p99, p999].map(rounded).join('/')
  return `${figures} (${sign}${rounded(above)})${refused > 0 ? ` ${refused} refused` : ''}`
}

function answersOf({ answers, goesOn }: Cost): string {
  const counts = new Map<string, number>()
  for (const { words } of answers) counts.set(words, (counts.get(words) ?? 0) + 1)
  const told = [...counts].map(([words, count]) => (count === 1 ? words : `${count}x ${words}`))
  return [...told, ...(goesOn ? ['and the work goes on'] : [])].join(', ')
}

/** A whole number; a dash for an unknown value. */
function rounded(figure: number): string {
  if (Number.isNaN(figure)) return '–'
  return figure === Number.POSITIVE_INFINITY ? '∞' : String(Math.round(figure))
}

const legend = `held: the longest stretch for which the main thread held the event loop, in its own CPU time without collections of garbage
(gc: the most of those in a stretch). no core: for how long it had no core of the machine, which others used. livez, plants, stream:
p50/p99/p99.9 of what bystanders waited, and how much the last is above the same service without attackers. MB: memory above idle,
at most, and once it has been calm. Bars: held ${bars.held.usual} ms (${bars.held.largest} with the largest bodies), p99.9 +${bars.waits.usual} (+${bars.waits.largest}),
${bars.memory / megabyte} MB, ${bars.calm / megabyte} MB when calm, answered in ${bars.seconds} s.`

/** All lines as a Markdown table, the worst first. */
export function markdownOf(lines: readonly Line[]): string {
  const rows = lines.toSorted((a, b) => badness(b) - badness(a)).map(cellsOf)
  const columns = Object.keys(rows[0] ?? {})
  const written = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [
    legend,
    '',
    written(columns),
    written(columns.map(() => '---')),
    ...rows.map((row) => written(columns.map((column) => row[column] ?? ''))),
    '',
  ].join('\n')
}
