/** What can be limited, by the names that operators use. */
export const limitNames = [
  'requests_per_minute',
  'tokens_per_minute',
  'chat_at_once',
  'tokens_per_day',
  'tokens_per_month',
  'plants',
  'characters',
  'character_bytes',
] as const
export type LimitName = (typeof limitNames)[number]

/** Limits that are set: a key's own, which hold beside its account's, or those of the settings. */
export type Limits = Readonly<Partial<Record<LimitName, number>>>

/** The operator's values for one account: where there is none, the settings' limit holds, and with `none` there is no limit. */
export type AccountLimits = Readonly<Partial<Record<LimitName, number | 'none'>>>

/** Limits as operators write them: `default` takes a value away. */
export type WrittenLimits = Readonly<Partial<Record<LimitName, number | 'none' | 'default'>>>

/** The highest a limit can be. */
export const maxLimit = 1_000_000_000_000

/** The limits of accounts where nothing is set: what no caller can do without bounds, since it stays on the disk. */
const standardLimits: Limits = { characters: 1000, character_bytes: 1024 ** 3 }

/** Tells whether a text is the name of a limit. */
export function isLimitName(text: string): text is LimitName {
  return limitNames.some((name) => name === text)
}

/**
 * Reads limits that are written as `name=value`, where the value may be a word.
 * @param words the words that mean something here
 * @returns the limits, or what is wrong with the first that cannot be one, as one sentence
 */
export function parseLimits(
  written: readonly string[],
  words: readonly ('none' | 'default')[] = ['none', 'default'],
): WrittenLimits | string {
  const limits: Partial<Record<LimitName, number | 'none' | 'default'>> = {}
  for (const each of written) {
    const [name = '', value = '', ...more] = each.split('=').map((part) => part.trim())
    if (!isLimitName(name)) return `There is no limit ${JSON.stringify(name)}; there are ${limitNames.join(', ')}.`
    const word = words.find((word) => word === value)
    const isNumber = /^\d{1,13}$/.test(value) && Number(value) <= maxLimit
    if (more.length > 0 || (word === undefined && !isNumber)) {
      const allowed = [`a whole number from 0 to ${maxLimit}`, ...words].join(', or ')
      return `The limit ${name} is ${JSON.stringify(value)}; give ${allowed}.`
    }
    if (name in limits) return `The limit ${name} is given twice. Give it once.`
    limits[name] = word ?? Number(value)
  }
  return limits
}

/**
 * Reads the limits of the setting `LIMITS`: those of accounts where nothing is set, with what it sets in their place or besides.
 * @returns the limits, or what is wrong, as one sentence
 */
export function settingsLimits(text: string | undefined): Limits | string {
  const written = parseLimits(text?.split(',') ?? [], ['none'])
  return typeof written === 'string' ? written : numbersOf({ ...standardLimits, ...written })
}

/** Reads an account's limits as the database keeps them: JSON that we wrote ourselves. A version before `none` sees no value there. */
export function storedAccountLimits(json: string): AccountLimits {
  const parsed: unknown = JSON.parse(json)
  const limits: Partial<Record<LimitName, number | 'none'>> = {}
  for (const [name, value] of Object.entries(parsed ?? {})) {
    if (isLimitName(name) && (typeof value === 'number' || value === 'none')) limits[name] = value
  }
  return limits
}

/** Reads a key's limits as the database keeps them. */
export function storedLimits(json: string): Limits {
  return numbersOf(storedAccountLimits(json))
}

/** Limits without the words. */
function numbersOf(written: WrittenLimits): Limits {
  const limits: Partial<Record<LimitName, number>> = {}
  for (const [name, value] of Object.entries(written)) {
    if (isLimitName(name) && typeof value === 'number') limits[name] = value
  }
  return limits
}
