import { describe, expect, it } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import type { Limits } from '../../src/limit-values.ts'
import { LocalLimiter } from '../../src/limits/local-limiter.ts'
import { dayOf } from '../../src/time.ts'
import { SpentTokens } from '../../src/usage/spent.ts'
import { keyOf } from '../support/limits.ts'

const unspent = async () => 0

/** A limiter with the ledger and the clock of the test, and a function that spends tokens by a request of account 1. */
function spendingLimiter(settings: Limits, start: number) {
  const clock = { now: start }
  const ledger = new SpentTokens()
  const spent = async (subject: string, from: string, to: string) => ledger.between(subject, from, to)
  const limiter = new LocalLimiter({ settings, spent, now: () => clock.now })
  const spend = async (tokens: number): Promise<void> => {
    const reservation = await limiter.reserve(keyOf('one', 1), () => tokens)
    ledger.add({ day: dayOf(clock.now), subject: 'account:1', tokens })
    reservation.settle(tokens)
  }
  return { clock, spend }
}

/** The message of a refusal, and its Retry-After. */
async function refusal(call: () => unknown): Promise<readonly [string, string | undefined]> {
  try {
    await call()
  } catch (error) {
    if (error instanceof ApiError && error.status === 429) return [error.message, error.headers['retry-after']]
    throw error
  }
  throw new Error('it was let in')
}

describe('a limiter', () => {
  it("applies a key's own limit and its account's, which is the operator's value or that of the settings", async () => {
    let now = 0
    const settings = { requests_per_minute: 3 }
    const limiter = new LocalLimiter({ settings, spent: unspent, now: () => now })
    const own = keyOf('own', 1, { requests_per_minute: 1 }, { requests_per_minute: 2 })
    const higher = keyOf('higher', 1, { requests_per_minute: 100 }, { requests_per_minute: 2 })
    const none = keyOf('none', 1, {}, { requests_per_minute: 2 })
    expect(limiter.admit(own)?.remaining).toBe(0)
    expect(await refusal(() => limiter.admit(own))).toStrictEqual([
      'The request would exceed the limit requests_per_minute of 1. Try again in 60 s.',
      '60',
    ])
    // The refused request took nothing from the account, and this request takes one. The limit with the fewest left is shown.
    expect(limiter.admit(higher)).toMatchObject({ limit: 2, remaining: 0 })
    for (const key of [higher, none]) {
      expect(await refusal(() => limiter.admit(key))).toStrictEqual([
        'The request would exceed the limit requests_per_minute of 2. Try again in 30 s.',
        '30',
      ])
    }
    // Both limits refuse, and Retry-After has the longer wait.
    expect((await refusal(() => limiter.admit(own)))[1]).toBe('60')
    expect(limiter.admit(keyOf('third', 2))?.remaining).toBe(2)
    now += 30_000
    expect(limiter.admit(none)?.remaining).toBe(0)
    now += 30_000
    expect(limiter.admit(own)).toMatchObject({ limit: 1, remaining: 0 })
  })

  it('counts chats that began before a limit is set, and counts the end of a chat once', async () => {
    const limiter = new LocalLimiter({ settings: {}, spent: unspent, now: () => 0 })
    const first = await limiter.reserve(keyOf('one', 1), () => 1)
    const limited = keyOf('two', 1, {}, { chat_at_once: 2 })
    const second = await limiter.reserve(limited, () => 1)
    expect(await refusal(() => limiter.reserve(limited, () => 1))).toStrictEqual([
      'The request would exceed the limit chat_at_once of 2. Try again in 1 s.',
      '1',
    ])
    first.settle(0)
    first.settle(0)
    const third = await limiter.reserve(limited, () => 1)
    await refusal(() => limiter.reserve(limited, () => 1))
    second.settle(0)
    third.settle(0)
    expect(limiter.inFlightChats).toBe(0)
  })

  /** Counts requests of so many other keys that the limiter drops idle keys. */
  function flood(limiter: LocalLimiter): void {
    for (let each = 0; each < 6000; each++) limiter.admit(keyOf(`other ${each}`, 1000 + each))
  }

  it('drops no account with reserved tokens, even if the account has no limit of chats', async () => {
    const limiter = new LocalLimiter({ settings: {}, spent: unspent })
    const key = keyOf('one', 1, { chat_at_once: 5 }, { tokens_per_day: 100 })
    const first = await limiter.reserve(key, () => 100)
    flood(limiter)
    await refusal(() => limiter.reserve(key, () => 100))
    first.settle(100)
    await refusal(() => limiter.reserve(key, () => 100))
  })

  it('counts a request in the limits of its account, even if the account was dropped while the request waited', async () => {
    const ledger = Promise.withResolvers<number>()
    const limiter = new LocalLimiter({ settings: {}, spent: () => ledger.promise })
    const key = keyOf('one', 1, {}, { chat_at_once: 1, tokens_per_day: 1000 })
    const first = limiter.reserve(key, () => 1)
    flood(limiter)
    const second = limiter.reserve(key, () => 1)
    ledger.resolve(0)
    const outcomes = await Promise.allSettled([first, second])
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  })

  it('reserves the tokens that a request may spend in a day, and then counts the tokens that it spent', async () => {
    const limiter = new LocalLimiter({ settings: { tokens_per_day: 100 }, spent: async () => 40 })
    const key = keyOf('one', 1)
    const first = await limiter.reserve(key, () => 50)
    expect((await refusal(() => limiter.reserve(key, () => 20)))[0]).toMatch(
      /^The request would exceed the limit tokens_per_day of 100/,
    )
    first.settle(5)
    const second = await limiter.reserve(key, () => 55)
    second.settle(55)
    await refusal(() => limiter.reserve(key, () => 1))
    expect((await refusal(() => limiter.reserve(key, () => 101)))[0]).toBe(
      'The request may take 101 tokens, and the limit tokens_per_day is 100. Send a shorter prompt, or a lower max_completion_tokens.',
    )
  })

  it('starts a new count at midnight and at the first of a month (UTC), and Retry-After says when', async () => {
    const settings = { tokens_per_day: 10, tokens_per_month: 25 }
    const { clock, spend } = spendingLimiter(settings, Date.UTC(2026, 10, 27, 23, 59, 30))
    await spend(10)
    expect((await refusal(() => spend(1)))[1]).toBe('30')
    clock.now += 30_000
    await spend(10)
    clock.now += 86_400_000
    expect((await refusal(() => spend(10)))[0]).toMatch(/^The request would exceed the limit tokens_per_month of 25\./)
    clock.now += 3_600_000
    await spend(5)
    expect((await refusal(() => spend(1)))[1]).toBe(String(2 * 86_400 - 3600))
    clock.now = Date.UTC(2027, 0, 1)
    await spend(10)
  })

  it.each([
    ['a day', Date.UTC(2026, 10, 28, 12)],
    ['a month', Date.UTC(2026, 11, 28, 12)],
    ['a year', Date.UTC(2027, 10, 27, 12)],
  ])(
    'applies the limits of a day and a month after the clock has jumped ahead by %s and has been set back',
    async (_, ahead) => {
      const today = Date.UTC(2026, 10, 27, 12)
      const { clock, spend } = spendingLimiter({ tokens_per_day: 10, tokens_per_month: 15 }, today)
      await spend(6)
      clock.now = ahead
      await spend(3)
      clock.now = today + 1000
      await refusal(() => spend(5))
      await spend(4)
      expect((await refusal(() => spend(1)))[0]).toMatch(/ tokens_per_day of 10\./)
      clock.now = today + 86_400_000
      expect((await refusal(() => spend(6)))[0]).toMatch(/ tokens_per_month of 15\./)
    },
  )

  it('reads the ledger again after a failure', async () => {
    let isBroken = true
    const spent = async () => {
      if (isBroken) throw new Error('no ledger')
      return 7
    }
    const limiter = new LocalLimiter({ settings: { tokens_per_day: 10 }, spent })
    const key = keyOf('one', 1)
    await expect(limiter.reserve(key, () => 1)).rejects.toThrow('no ledger')
    isBroken = false
    await refusal(() => limiter.reserve(key, () => 4))
    expect((await limiter.reserve(key, () => 3)).tokens).toBe(3)
  })

  it('keeps the counts of busy keys when it drops idle keys', async () => {
    const limiter = new LocalLimiter({ settings: { chat_at_once: 1 }, spent: unspent, now: () => 0 })
    const busy = keyOf('busy', 1, { requests_per_minute: 1 })
    limiter.admit(busy)
    const held = await limiter.reserve(busy, () => 1)
    for (let count = 0; count < 12_000; count++) limiter.admit(keyOf(`idle ${count}`, 2))
    await refusal(() => limiter.admit(busy))
    await refusal(() => limiter.reserve(busy, () => 1))
    held.settle(0)
    await limiter.reserve(busy, () => 1)
  })
})
