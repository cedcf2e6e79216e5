import type { Key } from '../access/access.ts'
import type { LimitName, Limits } from '../limit-values.ts'

/** A limit in force, and the subject that it is counted for. */
export interface AppliedLimit<Subject> {
  readonly limit: number
  readonly subject: Subject
}

/** The limits of one name for one key: the limit of the key and the limit of its account. Both apply. */
export type AppliedLimits<Subject> = readonly AppliedLimit<Subject>[]

/** The limits of one key on requests, tokens and in-flight chats. */
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

/** The two limits of one name for a key. Both apply; undefined means no limit. */
export interface LimitsInForce {
  /** The limit of the key. */
  readonly own: number | undefined
  /** The limit of its account, over all keys: the value that the operator gave the account, or the value in the setting. */
  readonly ofAccount: number | undefined
}

/** How many characters an account may have, and how many bytes; undefined means no limit. */
interface CharactersAllowed {
  readonly characters: number | undefined
  readonly bytes: number | undefined
}

/** The limits of this name that apply to a key. */
export function limitsInForce(key: LimitedKey, settings: Limits, name: LimitName): LimitsInForce {
  const ofAccount = key.account.limits[name] ?? settings[name]
  return { own: key.limits[name], ofAccount: ofAccount === 'none' ? undefined : ofAccount }
}

/** The lower of the limits `plants` of a key and its account; undefined without a limit. */
export const plantsAllowed = lowest('plants')

/** The lower of the limits of a key and its account, for uploaded characters and for their bytes. */
export function charactersAllowed(key: LimitedKey, settings: Limits): CharactersAllowed {
  return { characters: charactersOf(key, settings), bytes: characterBytesOf(key, settings) }
}

const charactersOf = lowest('characters')
const characterBytesOf = lowest('character_bytes')

/** Makes a function that finds the lower of a key's two limits of a name; undefined without a limit. */
function lowest(name: LimitName) {
  return (key: LimitedKey, settings: Limits): number | undefined => {
    const { own, ofAccount } = limitsInForce(key, settings, name)
    if (own === undefined || ofAccount === undefined) return own ?? ofAccount
    return Math.min(own, ofAccount)
  }
}

/** A copy without the limits of the day and the month, for a request that does not count in these limits. */
export function withoutSpendingLimits<T extends KeyLimits<unknown>>(limits: T): T {
  return { ...limits, perDay: [], perMonth: [], hasSpendingLimit: false }
}

/**
 * Finds the limits of a key. The key's own limit is counted for this key only, and the limit of the account over all keys of
 * the account. Both apply.
 * @param subjectOf finds a subject by its name in the ledger: `key:ID` or `account:ID`
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
