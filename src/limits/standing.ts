import type { Key } from '../access/access.ts'
import { type LimitName, type Limits, limitNames } from '../limit-values.ts'
import type { Tally } from './counting.ts'
import { limitsInForce } from './key-limits.ts'
import type { Limiter } from './limiter.ts'
import { untilNextMonth, untilTomorrow } from './spending.ts'

/** Limits on what an account keeps; the others are on what comes in a time, or goes on. */
type KeptName = Exclude<LimitName, keyof typeof timed>

/** Count what an account keeps, by its id; at least so much of it as is enough, where that is said. */
export type KeptCounts = Readonly<Record<KeptName, (account: number, enough?: number) => Promise<number>>>

/** How far one limit of a key, or of its account, is used. */
export interface Standing {
  readonly limit: LimitName
  readonly of: 'account' | 'key'
  /** Null where there is no limit. */
  readonly value: number | null
  /** 0 where what comes by the minute has no limit; null where what is kept has none, and is too much to be counted. */
  readonly used: number | null
  /** When all of it has come back, Unix seconds; null where there is no limit, and where time brings nothing back. */
  readonly resets: number | null
}

/** What is counted of something that has no limit. */
const mostUnlimited = 10_000

interface Use {
  readonly used: number | null
  /** Milliseconds from now; null where time brings nothing back. */
  readonly resetMs: number | null
}

/** Tells how much of a limit is used. What is limited by the minute is counted only where there is a limit. */
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
 * Tells of every limit how far it is used, of the account and of the key.
 * @param settings for accounts that have none of their own
 * @throws ApiError 503 when the counts cannot be read
 */
export async function standingsOf(
  key: Key,
  settings: Limits,
  limiter: Pick<Limiter, 'readTallies'>,
  kept: KeptCounts,
): Promise<readonly Standing[]> {
  const keptUse = new Map<LimitName, Use>()
  for (const name of limitNames) {
    if (isTimed(name)) continue
    const { own, ofAccount } = limitsInForce(key, settings, name)
    const isLimited = own !== undefined || ofAccount !== undefined
    keptUse.set(name, { used: await usedOfKept(kept[name], key.account.id, isLimited), resetMs: null })
  }
  return limiter.readTallies(key, (tallies, now) =>
    limitNames.flatMap((name) => {
      const { own, ofAccount } = limitsInForce(key, settings, name)
      const standing = (of: Standing['of'], limit: number | undefined): Standing => {
        const use = isTimed(name) ? timed[name](tallies[of], limit, now) : keptUse.get(name)
        const { used, resetMs } = use ?? { used: 0, resetMs: null }
        const resets = limit === undefined || resetMs === null ? null : Math.ceil((now + resetMs) / 1000)
        return { limit: name, of, value: limit ?? null, used, resets }
      }
      return [standing('account', ofAccount), standing('key', own)]
    }),
  )
}

/** What an account keeps. To count millions of plants takes seconds: where there is no limit nobody waits for that. */
async function usedOfKept(count: KeptCounts[KeptName], account: number, isLimited: boolean): Promise<number | null> {
  if (isLimited) return await count(account)
  const counted = await count(account, mostUnlimited + 1)
  return counted > mostUnlimited ? null : counted
}

function isTimed(name: LimitName): name is keyof typeof timed {
  return name in timed
}
