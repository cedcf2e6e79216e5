import { cpus } from 'node:os'

/** The middle value of some measurements. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** One line that says what machine the figures are from. */
export function machineLine(): string {
  const processors = cpus()
  return `${new Date().toISOString().slice(0, 10)}, Node ${process.version}, ${processors.length} x ${processors[0]?.model ?? 'unknown processor'}`
}
