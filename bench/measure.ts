import { cpus } from 'node:os'

/** How many rounds a benchmark takes the median of. */
export const rounds = Number(process.env['ROUNDS'] ?? 5)

/** Seconds for which load is driven in a round, at each of those that are compared. */
export const seconds = Number(process.env['SECONDS'] ?? 4)

/** One line of the table at the end: what was wanted and what was found. */
export interface Figure {
  readonly figure: string
  readonly wanted: string
  readonly found: string
  readonly isReached: boolean
}

/** A figure that must not be lower than wanted. */
export function atLeast(figure: string, wanted: number, found: number, unit = ''): Figure {
  return { figure, wanted: `at least ${wanted}${unit}`, found: `${round2(found)}${unit}`, isReached: found >= wanted }
}

/** A figure that must not be higher than wanted. */
export function atMost(figure: string, wanted: number, found: number, unit = ''): Figure {
  return { figure, wanted: `at most ${wanted}${unit}`, found: `${round2(found)}${unit}`, isReached: found <= wanted }
}

/** What was measured in rounds. */
export interface Rounds<Name extends string> {
  /** The median of what this one did. */
  middle(name: Name): number
  /** The median of what this one did in proportion to another one in the same round. */
  ratio(name: Name, to: Name): number
}

/** Takes some measurements in turn, round after round: all of a round meet the same machine. */
export async function inTurn<Name extends string>(
  measurements: Readonly<Record<Name, () => Promise<number>>>,
): Promise<Rounds<Name>> {
  const found: Map<string, number>[] = []
  for (let round = 0; round < rounds; round++) {
    const figures = new Map<string, number>()
    for (const [name, measure] of Object.entries<() => Promise<number>>(measurements))
      figures.set(name, await measure())
    found.push(figures)
  }
  const of = (name: Name) => found.map((figures) => figures.get(name) ?? Number.NaN)
  return {
    middle: (name) => median(of(name)),
    ratio(name, to) {
      const others = of(to)
      return median(of(name).map((figure, round) => figure / (others[round] ?? Number.NaN)))
    },
  }
}

/** The middle value of some measurements. */
export function median(values: readonly number[]): number {
  return percentile(values, 50)
}

/** The value that so many percent of some measurements do not exceed; at 50, the mean of the two in the middle. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const place = (sorted.length * percent) / 100
  const upper = sorted[Math.min(Math.floor(place), sorted.length - 1)] ?? Number.NaN
  return percent === 50 && Number.isInteger(place) ? ((sorted[place - 1] ?? Number.NaN) + upper) / 2 : upper
}

/** A number with two digits after the point. */
export function round2(value: number): number {
  return Math.round(value * 100) / 100
}

/** One line that says what machine the figures are from. */
export function machineLine(): string {
  const processors = cpus()
  return `${new Date().toISOString().slice(0, 10)}, Node ${process.version}, ${processors.length} x ${processors[0]?.model ?? 'unknown processor'}`
}
