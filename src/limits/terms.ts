import type { Key } from '../access/access.ts'
import type { LimitName, Limits } from './limits.ts'

/** A limit in force, and for whom it is counted. */
export interface Applied<Subject> {
  readonly limit: number
  readonly subject: Subject
}

/** The limits of one key as it was read. */
export interface Terms<Subject> {
  readonly key: Subject
  readonly account: Subject
  readonly countsAtOnce: readonly Subject[]
  readonly requests: Applied<Subject> | undefined
  readonly tokens: Applied<Subject> | undefined
  readonly atOnce: Applied<Subject> | undefined
  readonly perDay: Applied<Subject> | undefined
  readonly perMonth: Applied<Subject> | undefined
}

/**
 * Finds the limits of a key. One that is set on the key is counted for the key alone; one of its account or of the
 * settings is counted for the account, over all keys that fall back to it.
 * @param subjectOf gives the one that is counted for, by its name: `key:ID` or `account:ID`, as the ledger has it
 */
export function termsOf<Subject>(key: Key, settings: Limits, subjectOf: (name: string) => Subject): Terms<Subject> {
  const own = subjectOf(`key:${key.id}`)
  const account = subjectOf(`account:${key.account.id}`)
  const applied = (name: LimitName): Applied<Subject> | undefined => {
    const ofKey = key.limits[name]
    if (ofKey !== undefined) return { limit: ofKey, subject: own }
    const limit = key.account.limits[name] ?? settings[name]
    return limit === undefined ? undefined : { limit, subject: account }
  }
  return {
    key: own,
    account,
    countsAtOnce: key.limits.chat_at_once === undefined ? [own, account] : [own],
    requests: applied('requests_per_minute'),
    tokens: applied('tokens_per_minute'),
    atOnce: applied('chat_at_once'),
    perDay: applied('tokens_per_day'),
    perMonth: applied('tokens_per_month'),
  }
}

/** Whether a limit for a day or a month is in force. */
export function isLasting({ perDay, perMonth }: Terms<unknown>): boolean {
  return perDay !== undefined || perMonth !== undefined
}
