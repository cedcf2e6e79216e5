import type { ChangeLimit } from '../audit/record.ts'
import type { LimitName, Limits } from '../limit-values.ts'
import type { Key } from './access.ts'

/** The part of a key that its limits are read from. */
export type LimitedKey = Pick<Key, 'limits' | 'maker'> & { readonly account: Pick<Key['account'], 'limits'> }

/** The limits of one name for a key. All apply; undefined means no limit. */
export interface LimitsInForce {
  /** The limit of the key, which is never above the limit of its maker. */
  readonly own: number | undefined
  /** The limit of its maker, over all keys that the maker has made. */
  readonly ofMaker: number | undefined
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
  return {
    own: key.limits[name],
    ofMaker: key.maker?.limits[name],
    ofAccount: ofAccount === 'none' ? undefined : ofAccount,
  }
}

/** The limits on the changes of a key in a day, with the subjects of their counts. */
export function changeLimitsOf(key: Key, settings: Limits): readonly ChangeLimit[] {
  const { own, ofMaker, ofAccount } = limitsInForce(key, settings, 'changes_per_day')
  const subjects = changeSubjectsOf(key)
  const all = [
    { subject: subjects.key, limit: own },
    { subject: subjects.maker, limit: ofMaker },
    { subject: subjects.account, limit: ofAccount },
  ]
  return all.flatMap(({ subject, limit }) => (limit === undefined ? [] : [{ subject, limit }]))
}

/** The subjects of the counts of changes. A key without a maker has no limit of a maker, so that subject is its own. */
export function changeSubjectsOf({ subject, maker, account }: Key) {
  return {
    key: `changes:key:${subject}`,
    maker: `changes:key:${maker?.subject ?? subject}`,
    account: `changes:account:${account.id}`,
  }
}

/** The lower of the limits `plants` of a key and its account; undefined without a limit. */
export const plantsAllowed = lowest('plants')

/** The lower of the limits `photo_bytes` of a key and its account; undefined without a limit. */
export const photoBytesAllowed = lowest('photo_bytes')

/** The lower of the limits `events` of a key and its account; undefined without a limit. */
export const eventsAllowed = lowest('events')

/** The lower of the limits `keys` of a key and its account; undefined without a limit. */
export const keysAllowed = lowest('keys')

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
