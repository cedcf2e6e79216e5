/** What can be limited, by the names that operators use. */
export const limitNames = [
  'requests_per_minute',
  'tokens_per_minute',
  'chat_at_once',
  'tokens_per_day',
  'tokens_per_month',
  'plants',
] as const
export type LimitName = (typeof limitNames)[number]

/** Limits that are set: a key's own, which hold beside its account's; an account's; or those of the settings, for accounts that have none. */
export type Limits = Readonly<Partial<Record<LimitName, number>>>

/** The highest a limit can be. */
export const highestLimit = 1_000_000_000_000

/** Tells whether a text is the name of a limit. */
export function isLimitName(text: string): text is LimitName {
  return limitNames.some((name) => name === text)
}

/**
 * Reads limits that are written as `name=value`.
 * @returns the limits, or what is wrong with the first that cannot be one, as one sentence
 */
export function parseLimits(written: readonly string[]): Limits | string {
  const limits: Partial<Record<LimitName, number>> = {}
  for (const each of written) {
    const [name = '', value = '', ...more] = each.split('=').map((part) => part.trim())
    if (!isLimitName(name)) return `There is no limit ${JSON.stringify(name)}; there are ${limitNames.join(', ')}.`
    if (more.length > 0 || !/^\d{1,13}$/.test(value) || Number(value) > highestLimit) {
      return `The limit ${name} is ${JSON.stringify(value)}; give a whole number from 0 to ${highestLimit}.`
    }
    if (name in limits) return `The limit ${name} is given twice. Give it once.`
    limits[name] = Number(value)
  }
  return limits
}

/** Reads limits as the database keeps them: JSON that we wrote ourselves. */
export function storedLimits(json: string): Limits {
  const parsed: unknown = JSON.parse(json)
  const limits: Partial<Record<LimitName, number>> = {}
  for (const [name, value] of Object.entries(parsed ?? {})) {
    if (isLimitName(name) && typeof value === 'number') limits[name] = value
  }
  return limits
}
