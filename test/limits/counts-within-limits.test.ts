import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Key } from '../../src/access/access.ts'
import { ApiError } from '../../src/errors.ts'
import type { LimitName, Limits } from '../../src/limit-values.ts'
import type { Limiter, Reservation } from '../../src/limits/limiter.ts'
import { LocalLimiter } from '../../src/limits/local-limiter.ts'
import { PostgresCounts } from '../../src/limits/postgres.ts'
import { SharedLimiter } from '../../src/limits/shared-limiter.ts'
import { PostgresDatabase } from '../../src/storage/postgres/database.ts'
import { dayOf } from '../../src/time.ts'
import { keyOf } from '../support/limits.ts'
import { often } from '../support/often.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'

/*
 * The tests draw limits of keys, accounts and settings, and calls in any order. The tokens and requests of a key must never
 * exceed its own limit, and the tokens and requests of all keys of an account must never exceed the account's limit.
 */

type Call =
  | { readonly kind: 'request'; readonly key: number }
  | { readonly kind: 'begin'; readonly key: number; readonly tokens: number }
  | { readonly kind: 'end'; readonly which: number; readonly part: number }

interface Plan {
  readonly settings: Limits
  readonly accounts: readonly Limits[]
  /** The limits of each key; keys belong to the accounts in turn. */
  readonly keys: readonly Limits[]
  readonly calls: readonly Call[]
}

const few = {
  requests_per_minute: 8,
  chat_at_once: 4,
  tokens_per_minute: 60,
  tokens_per_day: 90,
  tokens_per_month: 120,
}
const limitsUnder = (part: number): fc.Arbitrary<Limits> =>
  fc.record(
    Object.fromEntries(Object.entries(few).map(([name, most]) => [name, fc.integer({ min: 0, max: most * part })])),
    { requiredKeys: [] },
  )
const key = fc.integer({ min: 0, max: 5 })
const call: fc.Arbitrary<Call> = fc.oneof(
  fc.record({ kind: fc.constant('request' as const), key }),
  fc.record({ kind: fc.constant('begin' as const), key, tokens: fc.integer({ min: 1, max: 40 }) }),
  fc.record({
    kind: fc.constant('end' as const),
    which: fc.nat(),
    part: fc.double({ min: 0, max: 1, noNaN: true }),
  }),
)
const plan: fc.Arbitrary<Plan> = fc.record({
  settings: limitsUnder(2),
  accounts: fc.array(limitsUnder(1), { minLength: 2, maxLength: 2 }),
  keys: fc.array(limitsUnder(1), { minLength: 6, maxLength: 6 }),
  calls: fc.array(call, { minLength: 20, maxLength: 60 }),
})

/** The counts of a new key or account. */
const zero = { requests_per_minute: 0, chat_at_once: 0, tokens_per_minute: 0, tokens_per_day: 0, tokens_per_month: 0 }
type Counted = Record<keyof typeof zero, number>

/** Limiters under test. Their clock stands still, or a test takes so little time that few tokens refill. */
interface Tried {
  /** Limiters with shared counts; each call goes to the next one. */
  readonly limiters: readonly Limiter[]
  /** Records the tokens of a request. */
  spend(key: Key, tokens: number): Promise<void>
  /** Whether the limiters refuse only calls that exceed a limit. */
  readonly isExact: boolean
}

let rounds = 0

async function check({ settings, accounts, keys: limitsOfKeys, calls }: Plan, tried: Tried): Promise<void> {
  const first = 1000 * ++rounds
  const began = performance.now()
  const owners = accounts.map((limits, index) => ({ limits, id: first + index, counted: { ...zero } }))
  const keys = limitsOfKeys.map((limits, index) => {
    const owner = owners[index % owners.length] ?? fail()
    const made = keyOf(`${first}-${index}`, owner.id, limits, owner.limits)
    return {
      made,
      bounds: [
        { limits, counted: { ...zero } },
        { ...owner, limits: { ...settings, ...owner.limits } },
      ],
    }
  })
  const open: { readonly key: (typeof keys)[number]; readonly tokens: number; readonly held: Reservation }[] = []

  /** Expects that the limits agree with the admission or refusal of a call. */
  const expectDecision = (bounds: (typeof keys)[number]['bounds'], taken: Partial<Counted>, isLetIn: boolean) => {
    let fits = true
    for (const { limits, counted } of bounds) {
      for (const [name, count] of entriesOf(taken)) {
        const limit = limits[name]
        if (limit === undefined) continue
        const isMinute = name.endsWith('_minute')
        // Tokens that have refilled since the start.
        const more = isMinute && !tried.isExact ? (limit * (performance.now() - began + 1000)) / 60_000 : 0
        if (isLetIn) expect(counted[name] + count, name).toBeLessThanOrEqual(limit + more)
        else if (counted[name] + count > limit) fits = false
      }
    }
    if (!isLetIn && tried.isExact) expect(fits, 'refused a call that fits').toBe(false)
    if (!isLetIn) return
    for (const { counted } of bounds) for (const [name, count] of entriesOf(taken)) counted[name] += count
  }

  for (const [index, call] of calls.entries()) {
    const limiter = tried.limiters[index % tried.limiters.length] ?? fail()
    if (call.kind === 'end') {
      const [ended] = open.splice(call.which % (open.length || 1), 1)
      if (!ended) continue
      const spent = Math.floor(ended.tokens * call.part)
      await ended.held.settle(spent, tried.spend(ended.key.made, spent))
      const freed = ended.tokens - spent
      for (const { counted } of ended.key.bounds) {
        counted.chat_at_once--
        counted.tokens_per_minute -= freed
        counted.tokens_per_day -= freed
        counted.tokens_per_month -= freed
      }
      continue
    }
    const key = keys[call.key] ?? fail()
    if (call.kind === 'request') {
      const left = await orRefused(() => limiter.admit(key.made))
      expectDecision(key.bounds, { requests_per_minute: 1 }, left !== 'refused')
      if (!tried.isExact || left === 'refused') continue
      // The reply shows the limit with the fewest left.
      const each = key.bounds.flatMap(({ limits: { requests_per_minute: limit }, counted }) =>
        limit === undefined ? [] : [limit - counted.requests_per_minute],
      )
      expect(left?.remaining).toBe(each.length === 0 ? undefined : Math.min(...each))
      continue
    }
    const { tokens } = call
    const held = await orRefused(() => limiter.reserve(key.made, () => tokens))
    const taken = { chat_at_once: 1, tokens_per_minute: tokens, tokens_per_day: tokens, tokens_per_month: tokens }
    expectDecision(key.bounds, taken, held !== 'refused')
    if (held !== 'refused') open.push({ key, tokens, held })
  }
  for (const { held } of open) await held.settle(0)
}

function entriesOf(counted: Partial<Counted>): readonly (readonly [LimitName & keyof Counted, number])[] {
  const names = [
    'requests_per_minute',
    'chat_at_once',
    'tokens_per_minute',
    'tokens_per_day',
    'tokens_per_month',
  ] as const
  return names.flatMap((name) => {
    const count = counted[name]
    return count === undefined ? [] : [[name, count] as const]
  })
}

async function orRefused<T>(call: () => T | Promise<T>): Promise<T | 'refused'> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof ApiError && error.status === 429) return 'refused'
    throw error
  }
}

function fail(): never {
  throw new Error('there is one')
}

describe('no count exceeds a limit', () => {
  it('in one process, and no call that fits is refused', async () => {
    const property = fc.asyncProperty(plan, async (each) => {
      const spent = async () => 0
      const limiter = new LocalLimiter({ settings: each.settings, spent, now: () => Date.UTC(2026, 10, 20) })
      await check(each, { limiters: [limiter], spend: async () => {}, isExact: true })
    })
    await fc.assert(property, { numRuns: often(300) })
  })

  describe('over PostgreSQL', () => {
    let databases: readonly PostgresDatabase[] = []
    beforeAll(async () => {
      const url = await newMigratedDatabase()
      databases = [new PostgresDatabase(url), new PostgresDatabase(url)]
    })
    afterAll(async () => {
      for (const database of databases) await database.close()
    })

    it('of two replicas', async () => {
      const counts = databases.map((database) => new PostgresCounts(database))
      const spend = async ({ id, account }: Key, tokens: number) => {
        const day = dayOf(Date.now())
        for (const subject of [`key:${id}`, `account:${account.id}`]) {
          await databases[0]?.transaction(
            (sql) => sql`
              INSERT INTO spend VALUES (${subject}, ${day}, ${tokens})
              ON CONFLICT (subject, day) DO UPDATE SET tokens = spend.tokens + excluded.tokens`,
          )
        }
      }
      const property = fc.asyncProperty(plan, async (each) => {
        const limiters = counts.map((shared) => new SharedLimiter({ settings: each.settings, counts: shared }))
        await check(each, { limiters, spend, isExact: false })
      })
      await fc.assert(property, { numRuns: often(15) })
      for (const each of counts) await each.close()
    }, 60_000)
  })
})
