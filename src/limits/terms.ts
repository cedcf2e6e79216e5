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
}

/** The part of a key that its limits are read from. */
export type LimitedKey = Pick<Key, 'limits'> & { readonly account: Pick<Key['account'], 'limits'> }

/** The limit of a key's account: the operator's value for it, else that of the settings; undefined where there is none. */
export function accountLimit(key: LimitedKey, settings: Limits, name: LimitName): number | undefined {
  return key.account.limits[name] ?? settings[name]
}

/** How many plants the account of a key may have for the key to add one: its own limit and its account's both hold. */
export function plantsAllowed(key: LimitedKey, settings: Limits): number | undefined {
  const both = [key.limits.plants, accountLimit(key, settings, 'plants')].filter((limit) => limit !== undefined)
  return both.length === 0 ? undefined : Math.min(...both)
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
    const ofKey = key.limits[name]
    if (ofKey !== undefined) found.push({ limit: ofKey, subject: own })
    const ofAccount = accountLimit(key, settings, name)
    if (ofAccount !== undefined) found.push({ limit: ofAccount, subject: account })
    return found
  }
  return {
    key: own,
    account,
    requests: ceilings('requests_per_minute'),
    tokens: ceilings('tokens_per_minute'),
    atOnce: ceilings('chat_at_once'),
    perDay: ceilings('tokens_per_day'),
    perMonth: ceilings('tokens_per_month'),
  }
}

/** Whether a limit for a day or a month is in force. */
export function isLasting({ perDay, perMonth }: Terms<unknown>): boolean {
  return perDay.length > 0 || perMonth.length > 0
}
