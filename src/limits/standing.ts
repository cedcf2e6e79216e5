import type { Key } from '../access/access.ts'
import { changeSubjectsOf, limitsInForce } from '../access/limits-in-force.ts'
import { type LimitName, type Limits, limitNames } from '../limit-values.ts'
import { dayOf } from '../time.ts'
import type { Tally } from './counting.ts'
import type { Limiter } from './limiter.ts'
import { type SpentBetween, untilNextMonth, untilTomorrow } from './spending.ts'

/** Limits on what an account stores. The other limits are on requests and tokens in a time, or on chats in flight. */
type StoredName = Exclude<LimitName, keyof typeof timed | 'changes_per_day'>

/** Functions that count what an account stores, by the id of the account; a count may stop at `enough`. */
export type StoredCounts = Readonly<Record<StoredName, (account: number, enough?: number) => Promise<number>>>

/** Functions that count what the limits need and a limiter does not count. */
export interface Counters {
  readonly stored: StoredCounts
  /** Reads a count of changes. */
  readonly spent: SpentBetween
}

/** How far one limit of a key, of its maker, or of its account, is used. */
export interface Standing {
  readonly limit: LimitName
  readonly of: 'account' | 'maker' | 'key'
  /** Null without a limit. */
  readonly value: number | null
  /**
   * Without a limit, requests and tokens of a minute and changes are 0, and plants are null if there are more than 10,000.
   * Over PostgreSQL, chats are 0 if neither chats nor tokens have a limit.
   */
  readonly used: number | null
  /** When the full limit is available again, in Unix seconds; null without a limit, and for limits that time does not restore. */
  readonly resets: number | null
}

/** Without a limit, a higher number of plants is not shown, so the count stops after this number. */
const maxUnlimitedCount = 10_000

interface Use {
  readonly used: number | null
  /** Milliseconds until the full limit is available again; null for limits that time does not restore. */
  readonly resetMs: number | null
}

/** Reads how much of a limit is used. Requests and tokens of a minute are counted only if they are limited. */
type UseOf = (tally: Tally, limit: number | undefined, now: number) => Use

const timed = {
  requests_per_minute: ({ requests }, limit, now) => usedOfMinute(requests, limit, now),
  tokens_per_minute: ({ tokens }, limit, now) => usedOfMinute(tokens, limit, now),
  chat_at_once: ({ chats }) => ({ used: chats, resetMs: null }),
  tokens_per_day: ({ spending, reserved }, _limit, now) => ({
    used: (spending?.today(now) ?? 0) + reserved,
    resetMs: untilTomorrow(now),
  }),
  tokens_per_month: ({ spending, reserved }, _limit, now) => ({
    used: (spending?.thisMonth(now) ?? 0) + reserved,
    resetMs: untilNextMonth(now),
  }),
} as const satisfies Partial<Record<LimitName, UseOf>>

function usedOfMinute(bucket: Tally['requests'], limit: number | undefined, now: number): Use {
  if (limit === undefined) return { used: 0, resetMs: null }
  return { used: bucket.used(now, limit), resetMs: bucket.left(now, limit).resetMs }
}

/**
 * Lists every limit of the account and of the key, and how far each limit is used. The limits of the key's maker are listed where
 * they are set.
 * @param settings the default limits of accounts, from the setting `LIMITS`
 * @throws the errors of `readTallies`, of `stored` and of `spent`
 */
export async function standingsOf(
  key: Key,
  settings: Limits,
  limiter: Pick<Limiter, 'readTallies'>,
  { stored, spent }: Counters,
): Promise<readonly Standing[]> {
  const storedUse = new Map<LimitName, Use>()
  for (const name of limitNames) {
    if (isTimed(name) || name === 'changes_per_day') continue
    const { own, ofAccount } = limitsInForce(key, settings, name)
    const isCut = name === 'plants' && own === undefined && ofAccount === undefined
    storedUse.set(name, { used: await usedOfStored(stored[name], key.account.id, isCut), resetMs: null })
  }
  const changes = await changesOf(key, spent)
  return limiter.readTallies(key, (tallies, now) =>
    limitNames.flatMap((name) => {
      const { own, ofMaker, ofAccount } = limitsInForce(key, settings, name)
      const standing = (of: Standing['of'], limit: number | undefined): Standing => {
        const ofChanges = { used: changes[of], resetMs: untilTomorrow(now) }
        const use = isTimed(name) ? timed[name](tallies[of] ?? tallies.key, limit, now) : storedUse.get(name)
        const { used, resetMs } = use ?? ofChanges
        const resets = limit === undefined || resetMs === null ? null : Math.ceil((now + resetMs) / 1000)
        return { limit: name, of, value: limit ?? null, used, resets }
      }
      const ofMakers = ofMaker === undefined ? [] : [standing('maker', ofMaker)]
      return [standing('account', ofAccount), ...ofMakers, standing('key', own)]
    }),
  )
}

/** How many changes of today count for a key, its maker and its account. */
async function changesOf(key: Key, spent: SpentBetween): Promise<Readonly<Record<Standing['of'], number>>> {
  const { key: own, maker, account } = changeSubjectsOf(key)
  const today = dayOf(Date.now())
  const count = (subject: string) => spent(subject, today, today)
  return { key: await count(own), maker: await count(maker), account: await count(account) }
}

/** Counts what an account stores. Counting millions of plants takes seconds, so a count of plants without a limit stops early. */
async function usedOfStored(count: StoredCounts[StoredName], account: number, isCut: boolean): Promise<number | null> {
  if (!isCut) return await count(account)
  const counted = await count(account, maxUnlimitedCount + 1)
  return counted > maxUnlimitedCount ? null : counted
}

function isTimed(name: LimitName): name is keyof typeof timed {
  return name in timed
}
