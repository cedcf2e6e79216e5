import type { Key } from '../access/access.ts'
import type { LimitName, Limits } from '../limit-values.ts'

/** A limit in force, and for whom it is counted. */
export interface AppliedLimit<Subject> {
  readonly limit: number
  readonly subject: Subject
}

/** The limits of one kind for one key: its own, and its account's. All of them hold. */
export type AppliedLimits<Subject> = readonly AppliedLimit<Subject>[]

/** The limits of one key as it was read. */
export interface KeyLimits<Subject> {
  readonly key: Subject
  readonly account: Subject
  readonly requests: AppliedLimits<Subject>
  readonly tokens: AppliedLimits<Subject>
  readonly inFlight: AppliedLimits<Subject>
  readonly perDay: AppliedLimits<Subject>
  readonly perMonth: AppliedLimits<Subject>
  /** Whether a limit for a day or a month is in force. */
  readonly hasSpendingLimit: boolean
}

/** The part of a key that its limits are read from. */
export type LimitedKey = Pick<Key, 'limits'> & { readonly account: Pick<Key['account'], 'limits'> }

/** The limits of one name for a key, both of which hold; each is undefined where there is none. */
export interface LimitsInForce {
  /** The key's own. */
  readonly own: number | undefined
  /** Its account's, for all its keys together: the operator's value for it, which may be none, else that of the settings. */
  readonly ofAccount: number | undefined
}

/** What the characters of an account may come to; each is undefined where there is no limit. */
interface CharactersAllowed {
  readonly characters: number | undefined
  readonly bytes: number | undefined
}

/** The limits of this name that hold for a key. */
export function limitsInForce(key: LimitedKey, settings: Limits, name: LimitName): LimitsInForce {
  const ofAccount = key.account.limits[name] ?? settings[name]
  return { own: key.limits[name], ofAccount: ofAccount === 'none' ? undefined : ofAccount }
}

/** How many plants the account of a key may have for the key to add one; undefined where there is no limit. */
export const plantsAllowed = lowest('plants')

/** How many uploaded characters the account of a key may have, and of how many bytes, for the key to add to them. */
export function charactersAllowed(key: LimitedKey, settings: Limits): CharactersAllowed {
  return { characters: charactersOf(key, settings), bytes: characterBytesOf(key, settings) }
}

const charactersOf = lowest('characters')
const characterBytesOf = lowest('character_bytes')

/** Gives what finds the lower of the two limits of a name for a key; undefined where there is none. */
function lowest(name: LimitName) {
  return (key: LimitedKey, settings: Limits): number | undefined => {
    const { own, ofAccount } = limitsInForce(key, settings, name)
    if (own === undefined || ofAccount === undefined) return own ?? ofAccount
    return Math.min(own, ofAccount)
  }
}

/** The limits of a request whose tokens count in no day and no month. */
export function withoutSpendingLimits<T extends KeyLimits<unknown>>(limits: T): T {
  return { ...limits, perDay: [], perMonth: [], hasSpendingLimit: false }
}

/**
 * Finds the limits of a key. Its own is counted for the key alone, that of its account for the account over all its keys;
 * neither takes the other's place.
 * @param subjectOf gives the one that is counted for, by its name: `key:ID` or `account:ID`, as the ledger has it
 */
export function keyLimitsOf<Subject>(
  key: Key,
  settings: Limits,
  subjectOf: (name: string) => Subject,
): KeyLimits<Subject> {
  const own = subjectOf(`key:${key.id}`)
  const account = subjectOf(`account:${key.account.id}`)
  const appliedLimits = (name: LimitName): AppliedLimits<Subject> => {
    const found: AppliedLimit<Subject>[] = []
    const inForce = limitsInForce(key, settings, name)
    if (inForce.own !== undefined) found.push({ limit: inForce.own, subject: own })
    if (inForce.ofAccount !== undefined) found.push({ limit: inForce.ofAccount, subject: account })
    return found
  }
  const [perDay, perMonth] = [appliedLimits('tokens_per_day'), appliedLimits('tokens_per_month')]
  return {
    key: own,
    account,
    requests: appliedLimits('requests_per_minute'),
    tokens: appliedLimits('tokens_per_minute'),
    inFlight: appliedLimits('chat_at_once'),
    perDay,
    perMonth,
    hasSpendingLimit: perDay.length + perMonth.length > 0,
  }
}
