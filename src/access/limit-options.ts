import { InvalidArgumentError } from 'commander'
import {
  type AccountLimits,
  isLimitName,
  type LimitName,
  type Limits,
  limitNames,
  parseLimits,
  type WrittenLimits,
} from '../limit-values.ts'
import type { AccountLimitChanges, LimitChanges } from './access.ts'
import { limited } from './policy.ts'

const names = `a limit, as often as there are limits: ${limitNames.join(', ')}`

/** What `--help` says of the `--limit` of an account. */
export const accountLimitHelp = `${names}; none is no limit, default is that of LIMITS`

/** What `--help` says of the `--limit` of a key. */
export const keyLimitHelp = `${names}; with none or default it has no limit of its own`

/** Gathers `--limit name=value`, which is given several times. @throws InvalidArgumentError for what is no limit */
export function withLimit(value: string, before: readonly string[] = []): readonly string[] {
  const written = [...before, value]
  readWritten(written)
  return written
}

/** Reads changes of an account's limits: `name=default` takes its value away, and `name=none` is one. */
export function readAccountChanges(written: readonly string[] = []): AccountLimitChanges {
  const changes: Partial<Record<LimitName, number | 'none' | null>> = {}
  for (const [name, value] of Object.entries(readWritten(written))) {
    if (isLimitName(name)) changes[name] = value === 'default' ? null : value
  }
  return changes
}

/** Reads changes of a key's limits: `name=none` and `name=default` take one away. */
export function readKeyChanges(written: readonly string[] = []): LimitChanges {
  const changes: Partial<Record<LimitName, number | null>> = {}
  for (const [name, value] of Object.entries(readWritten(written))) {
    if (isLimitName(name)) changes[name] = typeof value === 'number' ? value : null
  }
  return changes
}

/** The values of a new account. */
export function readAccountLimits(written?: readonly string[]): AccountLimits {
  return limited<{ readonly limits: AccountLimits }>({ limits: {} }, readAccountChanges(written)).limits
}

/** The limits of a new key. */
export function readKeyLimits(written?: readonly string[]): Limits {
  return limited<{ readonly limits: Limits }>({ limits: {} }, readKeyChanges(written)).limits
}

/** @throws InvalidArgumentError for what is no limit */
function readWritten(written: readonly string[]): WrittenLimits {
  const limits = parseLimits(written)
  if (typeof limits === 'string') throw new InvalidArgumentError(limits)
  return limits
}

/** Limits for people: `name=value`, nothing where there are none. */
export function limitsText(limits: AccountLimits): string | null {
  const written = Object.entries(limits).map(([name, value]) => `${name}=${value}`)
  return written.length === 0 ? null : written.join(',')
}
