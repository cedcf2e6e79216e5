import { cpus } from 'node:os'

/** The number of rounds of a benchmark. The median of the rounds is the result. */
export const rounds = Number(process.env['ROUNDS'] ?? 5)

/** Seconds of load for each compared server in a round. */
export const seconds = Number(process.env['SECONDS'] ?? 4)

/** One line of the table at the end: the target and the result. */
export interface Figure {
  readonly figure: string
  readonly target: string
  readonly found: string
  readonly isReached: boolean
}

/** A figure with a minimum. */
export function atLeast(figure: string, target: number, found: number, unit = ''): Figure {
  return { figure, target: `at least ${target}${unit}`, found: `${round2(found)}${unit}`, isReached: found >= target }
}

/** A figure with a maximum. */
export function atMost(figure: string, target: number, found: number, unit = ''): Figure {
  return { figure, target: `at most ${target}${unit}`, found: `${round2(found)}${unit}`, isReached: found <= target }
}

/** The measurements of all rounds. */
export interface Rounds<Name extends string> {
  /** The median of one measurement. */
  middle(name: Name): number
  /** The median of the ratio of two measurements of the same round. */
  ratio(name: Name, to: Name): number
}

/** Takes measurements in turn, round after round, so that all measurements of a round meet the same load of the machine. */
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

/** The median. */
export function median(values: readonly number[]): number {
  return percentile(values, 50)
}

/** A percentile; at 50, the mean of the two values in the middle. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const place = (sorted.length * percent) / 100
  const upper = sorted[Math.min(Math.floor(place), sorted.length - 1)] ?? Number.NaN
  return percent === 50 && Number.isInteger(place) ? ((sorted[place - 1] ?? Number.NaN) + upper) / 2 : upper
}

/** A number with two decimals. */
export function round2(value: number): number {
  return Math.round(value * 100) / 100
}

/** One line about the date, the Node version and the machine. */
export function machineLine(): string {
  const processors = cpus()
  return `${new Date().toISOString().slice(0, 10)}, Node ${process.version}, ${processors.length} x ${processors[0]?.model ?? 'unknown processor'}`
}
