import type { Cost } from './measure.ts'
import type { Row } from './row.ts'
import type { Kind } from './watch.ts'

/** One line of the table at the end. */
export interface Line {
  readonly row: Row
  readonly cost: Cost
  /** The memory above idle after the calm, in bytes. NaN until it is measured; undefined if the service stayed busy. */
  readonly calm: number | undefined
}

const megabyte = 1024 ** 2

/** The limits of the figures, in milliseconds, bytes and seconds. */
const bars = {
  held: { usual: 100, largest: 150 },
  waits: 150,
  largeChat: 2000,
  memory: 400 * megabyte,
  calm: 160 * megabyte,
  seconds: 30,
}

/** The bystanders with small requests. */
const kinds: readonly Kind[] = ['livez', 'plant', 'chat']

/** The limits that a cost exceeds, a word for each. */
export function missesOf(row: Row, cost: Cost): readonly string[] {
  const size = row.isLargest ? 'largest' : 'usual'
  const misses: string[] = []
  if (cost.held > bars.held[size]) misses.push('held')
  for (const kind of kinds) {
    if (!(excess(cost, kind) <= bars.waits)) misses.push(kind)
    if (cost.watched[kind].refused > 0) misses.push(`${kind} refused`)
  }
  if (row.lasts !== undefined && !(cost.watched.large.p99 <= bars.largeChat)) misses.push('chat of 1 MB')
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
  return watched[kind].p999 - quiet[kind].p999
}

/** The worst figure of a line, in proportion to its limit. */
export function badness({ row, cost, calm }: Line): number {
  const size = row.isLargest ? 'largest' : 'usual'
  return Math.max(
    cost.held / bars.held[size],
    cost.memory / bars.memory,
    (calm || 0) / bars.calm,
    cost.seconds / bars.seconds,
    (cost.watched.large.p99 || 0) / bars.largeChat,
    ...kinds.map((kind) => excess(cost, kind) / bars.waits),
  )
}

/** A line as the cells of a table, by the names of its columns. */
export function cellsOf({ row, cost, calm }: Line): Readonly<Record<string, string>> {
  const { held, isLeast, collections, cpu, queued, memory, seconds, watched } = cost
  return {
    attack: row.name,
    attackers: String(cost.attackers),
    'held ms': `${isLeast ? '≥ ' : ''}${Math.round(held)}`,
    'gc ms': rounded(collections),
    'CPU s': cpu.toFixed(1),
    'no core ms': rounded(queued),
    'livez ms': waitsOf(cost, 'livez'),
    'plant ms': waitsOf(cost, 'plant'),
    'chat ms': waitsOf(cost, 'chat'),
    'chat of 1 MB, ms': [watched.large.p50, watched.large.p99].map(rounded).join('/'),
    MB: rounded(memory / megabyte),
    'MB, calm': rounded((calm ?? Number.NaN) / megabyte),
    s: seconds.toFixed(1),
    answered: answersOf(cost),
    misses: [...missesOf(row, cost), ...(isTooMuch(calm) ? ['calm'] : [])].join(', ') || '–',
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
(gc: the most of those in a stretch). no core: for how long it had no core of the machine, which others used. livez, plant, chat:
p50/p99/p99.9 of what bystanders waited, and how much the last is above the same service without attackers. chat of 1 MB: p50/p99
of chats that began after 10 s. MB: memory above idle, at most, and once it has been calm. Bars: held ${bars.held.usual} ms
(${bars.held.largest} with the largest bodies), p99.9 +${bars.waits}, chat of 1 MB ${bars.largeChat} ms, ${bars.memory / megabyte} MB, ${bars.calm / megabyte} MB when calm, answered in ${bars.seconds} s.`

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
