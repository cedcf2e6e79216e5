import type { Key } from '../access/access.ts'
import type { LimitName, Limits } from '../limit-values.ts'

/** A limit in force, and for whom it is counted. */
export interface Applied<Subject> {
  readonly limit: number
  readonly subject: Subject
}

/** The limits of one kind for one key: its own, and its account's. All of them hold. */
export type Ceilings<Subject> = readonly Applied<Subject>[]

/** The limits of one key as it was read. */
export interface Terms<Subject> {
  readonly key: Subject
  readonly account: Subject
  readonly requests: Ceilings<Subject>
  readonly tokens: Ceilings<Subject>
  readonly atOnce: Ceilings<Subject>
  readonly perDay: Ceilings<Subject>
  readonly perMonth: Ceilings<Subject>
  /** Whether a limit for a day or a month is in force. */
  readonly isLasting: boolean
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
export function withoutSpending<T extends Terms<unknown>>(terms: T): T {
  return { ...terms, perDay: [], perMonth: [], isLasting: false }
}

/**
 * Finds the limits of a key. Its own is counted for the key alone, that of its account for the account over all its keys;
 * neither takes the other's place.
 * @param subjectOf gives the one that is counted for, by its name: `key:ID` or `account:ID`, as the ledger has it
 */
export function termsOf<Subject>(key: Key, settings: Limits, subjectOf: (name: string) => Subject): Terms<Subject> {
  const own = subjectOf(`key:${key.id}`)
  const account = subjectOf(`account:${key.account.id}`)
  const ceilings = (name: LimitName): Ceilings<Subject> => {
    const found: Applied<Subject>[] = []
    const limits = limitsInForce(key, settings, name)
    if (limits.own !== undefined) found.push({ limit: limits.own, subject: own })
    if (limits.ofAccount !== undefined) found.push({ limit: limits.ofAccount, subject: account })
    return found
  }
  const [perDay, perMonth] = [ceilings('tokens_per_day'), ceilings('tokens_per_month')]
  return {
    key: own,
    account,
    requests: ceilings('requests_per_minute'),
    tokens: ceilings('tokens_per_minute'),
    atOnce: ceilings('chat_at_once'),
    perDay,
    perMonth,
    isLasting: perDay.length + perMonth.length > 0,
  }
}
