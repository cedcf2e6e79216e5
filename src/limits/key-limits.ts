import type { Key } from '../access/access.ts'
import { limitsInForce } from '../access/limits-in-force.ts'
import { hasEnded } from '../access/refusals.ts'
import { type LimitName, type Limits, limitNames } from '../limit-values.ts'

/** The purpose of a chat request: a model's answer, or only the prompt, for which no model is called. */
export type ChatPurpose = 'answer' | 'prompt'

/** A limit in force, and the subject that it is counted for. */
export interface AppliedLimit<Subject> {
  readonly limit: number
  readonly subject: Subject
}

/** The limits of one name for one key: the limits of the key, of its maker and of its account. All apply. */
export type AppliedLimits<Subject> = readonly AppliedLimit<Subject>[]

/** The limits of one key on requests, tokens and in-flight chats. */
export interface KeyLimits<Subject> {
  readonly key: Subject
  /** The subject of the key's maker; undefined without a maker. */
  readonly maker: Subject | undefined
  readonly account: Subject
  /** The subjects of the key, of its maker and of its account. */
  readonly subjects: readonly Subject[]
  readonly requests: AppliedLimits<Subject>
  readonly tokens: AppliedLimits<Subject>
  readonly inFlight: AppliedLimits<Subject>
  readonly perDay: AppliedLimits<Subject>
  readonly perMonth: AppliedLimits<Subject>
  /** Whether a limit for a day or a month is in force. */
  readonly hasSpendingLimit: boolean
}

/** The limits that apply to a chat request: those of a day and of a month do not apply to a prompt that no model gets. */
export function limitsFor<Subject>(purpose: ChatPurpose, limits: KeyLimits<Subject>): KeyLimits<Subject> {
  return purpose === 'answer' ? limits : { ...limits, perDay: [], perMonth: [], hasSpendingLimit: false }
}

/**
 * Finds the limits of a key. The key's own limit is counted for this key and the keys that it replaces, the limit of its maker over
 * the maker and all keys that the maker has made, and the limit of the account over all keys of the account. All apply.
 * @param subjectOf finds a subject by its name in the ledger: `key:ID` or `account:ID`
 */
export function keyLimitsOf<Subject>(
  key: Key,
  settings: Limits,
  subjectOf: (name: string) => Subject,
): KeyLimits<Subject> {
  const own = subjectOf(`key:${key.subject}`)
  const maker = key.maker ? subjectOf(`key:${key.maker.subject}`) : undefined
  const account = subjectOf(`account:${key.account.id}`)
  const appliedLimits = (name: LimitName): AppliedLimits<Subject> => {
    const found: AppliedLimit<Subject>[] = []
    const inForce = limitsInForce(key, settings, name)
    if (inForce.own !== undefined) found.push({ limit: inForce.own, subject: own })
    if (inForce.ofMaker !== undefined && maker) found.push({ limit: inForce.ofMaker, subject: maker })
    if (inForce.ofAccount !== undefined) found.push({ limit: inForce.ofAccount, subject: account })
    return found
  }
  const [perDay, perMonth] = [appliedLimits('tokens_per_day'), appliedLimits('tokens_per_month')]
  return {
    key: own,
    maker,
    account,
    subjects: maker ? [own, maker, account] : [own, account],
    requests: appliedLimits('requests_per_minute'),
    tokens: appliedLimits('tokens_per_minute'),
    inFlight: appliedLimits('chat_at_once'),
    perDay,
    perMonth,
    hasSpendingLimit: perDay.length + perMonth.length > 0,
  }
}

/**
 * Warns the operator of limits without effect: a sentence for each limit of a valid key that is above the limit of its account.
 * @param settings the default limits of accounts, from the setting `LIMITS`
 */
export function limitWarnings(keys: readonly Key[], settings: Limits): readonly string[] {
  return keys
    .filter((key) => !hasEnded(key))
    .flatMap((key) =>
      limitNames.flatMap((name) => {
        const { own, ofAccount } = limitsInForce(key, settings, name)
        if (own === undefined || ofAccount === undefined || own <= ofAccount) return []
        const { prefix, account } = key
        return `The key ${prefix} has the limit ${name}=${own}, above the ${ofAccount} of its account ${JSON.stringify(account.name)}: both hold. Lower it: conservatory keys limit ${prefix} --limit ${name}=${ofAccount}`
      }),
    )
}
