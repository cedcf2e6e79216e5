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
import { type ModelList, modelListOf, modelListProblem } from './model-lists.ts'
import { limited } from './policy.ts'

const names = `one of ${limitNames.join(', ')}; repeat the option for each limit`

/** The help of `--limit` for accounts. */
export const accountLimitHelp = `${names}; none means no limit, default means the limit of LIMITS`

/** The help of `--limit` for keys. */
export const keyLimitHelp = `${names}; with none or default the key has no limit of its own`

/** Collects the values of a repeated `--limit name=value`. @throws InvalidArgumentError for an invalid limit */
export function withLimit(value: string, before: readonly string[] = []): readonly string[] {
  const written = [...before, value]
  readWritten(written)
  return written
}

/** Reads changes of an account's limits: `name=default` removes the account's value, and `name=none` sets "no limit". */
export function readAccountChanges(written: readonly string[] = []): AccountLimitChanges {
  const changes: Partial<Record<LimitName, number | 'none' | null>> = {}
  for (const [name, value] of Object.entries(readWritten(written))) {
    if (isLimitName(name)) changes[name] = value === 'default' ? null : value
  }
  return changes
}

/** Reads changes of a key's limits: `name=none` and `name=default` remove the limit. */
export function readKeyChanges(written: readonly string[] = []): LimitChanges {
  const changes: Partial<Record<LimitName, number | null>> = {}
  for (const [name, value] of Object.entries(readWritten(written))) {
    if (isLimitName(name)) changes[name] = typeof value === 'number' ? value : null
  }
  return changes
}

/** Reads the limits of a new account. */
export function readAccountLimits(written?: readonly string[]): AccountLimits {
  return limited<{ readonly limits: AccountLimits }>({ limits: {} }, readAccountChanges(written)).limits
}

/** Reads the limits of a new key. */
export function readKeyLimits(written?: readonly string[]): Limits {
  return limited<{ readonly limits: Limits }>({ limits: {} }, readKeyChanges(written)).limits
}

/** @throws InvalidArgumentError for an invalid limit */
function readWritten(written: readonly string[]): WrittenLimits {
  const limits = parseLimits(written)
  if (typeof limits === 'string') throw new InvalidArgumentError(limits)
  return limits
}

/** Writes limits as `name=value,…` for tables and messages; null without limits. */
export function limitsText(limits: AccountLimits): string | null {
  const written = Object.entries(limits).map(([name, value]) => `${name}=${value}`)
  return written.length === 0 ? null : written.join(',')
}

/** The help of `--models`. */
export const modelsHelp = 'the models that may be used, by id, or "b/*" for all that begin with b/; "*" for all'

/**
 * Reads a list of models from the command line; null for all models.
 * @throws InvalidArgumentError for an invalid list
 */
export function readModels(text: string): ModelList | null {
  // "none" could mean all models or no model.
  if (text.trim() === 'none') throw new InvalidArgumentError('The list of models is "none"; give "*" for all models.')
  const entries = text.split(',')
  const problem = modelListProblem(entries)
  if (problem !== undefined) throw new InvalidArgumentError(`The list of models ${problem}.`)
  return modelListOf(entries)
}

/** The help of `--time-zone`. */
export const timeZoneHelp = 'a name of the IANA database, such as Europe/Berlin; UTC or "" for UTC'

/**
 * Reads a time zone from the command line, in the spelling of the database.
 * @throws InvalidArgumentError for a text that names no time zone; for an offset such as +01:00, too, which has no summer time
 */
export function readTimeZone(text: string): string {
  const given = text.trim()
  if (given === '') return 'UTC'
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: given }).resolvedOptions()
    if (/^[A-Za-z]/.test(timeZone)) return timeZone
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
  }
  throw new InvalidArgumentError(`There is no time zone ${JSON.stringify(given)}; give ${timeZoneHelp}.`)
}

/** A list of models as `a,b/*` for tables and messages; null for all models. */
export function modelsText(models: ModelList | null): string | null {
  return models?.join(',') ?? null
}
