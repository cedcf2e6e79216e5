/** The names of the limits, as operators write them. */
export const limitNames = [
  'requests_per_minute',
  'tokens_per_minute',
  'chat_at_once',
  'tokens_per_day',
  'tokens_per_month',
  'plants',
  'photo_bytes',
  'characters',
  'character_bytes',
  'keys',
  'changes_per_day',
  'events',
] as const
export type LimitName = (typeof limitNames)[number]

/** Limits that are set: the limits of a key, or the limits of the settings. For a key, the limits of its account apply too. */
export type Limits = Readonly<Partial<Record<LimitName, number>>>

/**
 * The operator's values for one account. If a limit has no value here, the limit of the settings applies. `none` means no limit.
 */
export type AccountLimits = Readonly<Partial<Record<LimitName, number | 'none'>>>

/** Limits as operators write them. `default` removes the value of an account. */
export type WrittenLimits = Readonly<Partial<Record<LimitName, number | 'none' | 'default'>>>

/** The highest value of a limit. */
export const maxLimit = 1_000_000_000_000

/**
 * The limits of accounts if nothing else is set. Accounts share the disk, and a caller can fill it with photos, cards, keys,
 * audit records and events.
 */
const standardLimits: Limits = {
  photo_bytes: 1024 ** 3,
  characters: 1000,
  character_bytes: 1024 ** 3,
  keys: 1000,
  changes_per_day: 10_000,
  events: 1_000_000,
}

/** Whether a text is the name of a limit. */
export function isLimitName(text: string): text is LimitName {
  return limitNames.some((name) => name === text)
}

/**
 * Reads limits that are written as `name=value`. The value is a number or a word.
 * @param words the words that are allowed as values here
 * @returns the limits, or a sentence about the first malformed one
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
 * Reads the setting `LIMITS`. Its values replace or extend the standard limits; `none` removes one.
 * @returns the limits, or a sentence that says what is wrong
 */
export function settingsLimits(text: string | undefined): Limits | string {
  const written = parseLimits(text?.split(',') ?? [], ['none'])
  return typeof written === 'string' ? written : numbersOf({ ...standardLimits, ...written })
}

/** Reads an account's limits from the database's JSON, which this service wrote. Unknown names and values are ignored. */
export function storedAccountLimits(json: string): AccountLimits {
  const parsed: unknown = JSON.parse(json)
  const limits: Partial<Record<LimitName, number | 'none'>> = {}
  for (const [name, value] of Object.entries(parsed ?? {})) {
    if (isLimitName(name) && (typeof value === 'number' || value === 'none')) limits[name] = value
  }
  return limits
}

/** Reads a key's limits from the database's JSON. */
export function storedLimits(json: string): Limits {
  return numbersOf(storedAccountLimits(json))
}

/** Of each limit that one of both has, the lower value. */
export function lowerOf(limits: Limits, others: Limits = {}): Limits {
  const lower: Partial<Record<LimitName, number>> = { ...limits }
  for (const name of limitNames) {
    const other = others[name]
    if (other !== undefined) lower[name] = Math.min(lower[name] ?? other, other)
  }
  return lower
}

/** Keeps only the limits that are numbers. */
function numbersOf(written: WrittenLimits): Limits {
  const limits: Partial<Record<LimitName, number>> = {}
  for (const [name, value] of Object.entries(written)) {
    if (isLimitName(name) && typeof value === 'number') limits[name] = value
  }
  return limits
}
