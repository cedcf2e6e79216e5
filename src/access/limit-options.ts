import { InvalidArgumentError } from 'commander'
import { type LimitName, type Limits, limitNames, parseLimits } from '../limit-values.ts'
import type { LimitChanges } from './access.ts'

/** What `--help` says of `--limit`. */
export const limitHelp = `a limit, as often as there are limits: ${limitNames.join(', ')}`

/** Gathers `--limit name=value`, which is given several times. @throws InvalidArgumentError for what is no limit */
export function withLimit(value: string, before: readonly string[] = []): readonly string[] {
  const written = [...before, value]
  readLimits(written)
  return written
}

/** Gathers changes of limits. @throws InvalidArgumentError for what is none */
export function withChange(value: string, before: readonly string[] = []): readonly string[] {
  const written = [...before, value]
  readLimitChanges(written)
  return written
}

/** @throws InvalidArgumentError for what is no limit */
export function readLimits(written: readonly string[]): Limits {
  const limits = parseLimits(written)
  if (typeof limits === 'string') throw new InvalidArgumentError(limits)
  return limits
}

/**
 * Reads changes of limits, where `name=none` takes one away.
 * @throws InvalidArgumentError for what is no limit
 */
export function readLimitChanges(written: readonly string[]): LimitChanges {
  const isNone = /=\s*none\s*$/
  const limits = readLimits(written.map((each) => each.replace(isNone, '=0')))
  const none = new Set(written.filter((each) => isNone.test(each)).map((each) => each.split('=')[0]?.trim()))
  const changes: Partial<Record<LimitName, number | null>> = { ...limits }
  for (const name of limitNames) if (none.has(name)) changes[name] = null
  return changes
}

/** Limits for people: `name=value`, nothing where there are none. */
export function limitsText(limits: Limits): string | null {
  const written = Object.entries(limits).map(([name, value]) => `${name}=${value}`)
  return written.length === 0 ? null : written.join(',')
}
