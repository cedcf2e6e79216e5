import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Bucket } from '../../src/limits/bucket.ts'
import { duration, openAiTokenHeaders, standardHeaders } from '../../src/limits/headers.ts'
import { Spending } from '../../src/limits/spending.ts'

/** Calls that take tokens: the milliseconds since the call before, and the number of tokens. */
const takings = fc.array(
  fc.record({ after: fc.integer({ min: 0, max: 40_000 }), count: fc.integer({ min: 1, max: 20 }) }),
  { minLength: 1, maxLength: 60 },
)

/** Takes tokens if they are left. @returns the milliseconds to wait for them */
function take(bucket: Bucket, now: number, limit: number, count: number): number {
  const wait = bucket.wait(now, limit, count)
  if (wait === 0) bucket.correct(count)
  return wait
}

describe('a bucket', () => {
  it('never gives more in any period than its limit and the refill of that period', () => {
    fc.assert(
      fc.property(takings, fc.integer({ min: 0, max: 100 }), (all, limit) => {
        const bucket = new Bucket()
        const given: { at: number; count: number }[] = []
        let now = 1000
        for (const { after, count } of all) {
          now += after
          if (take(bucket, now, limit, count) === 0) given.push({ at: now, count })
        }
        for (const [index, from] of given.entries()) {
          let sum = 0
          for (const { at, count } of given.slice(index)) {
            sum += count
            expect(sum).toBeLessThanOrEqual(limit + ((at - from.at) * limit) / 60_000 + 1e-6 * (limit + 1))
          }
        }
      }),
    )
  })

  it('gives refused tokens after the wait that it returned, and not before', () => {
    fc.assert(
      fc.property(takings, fc.integer({ min: 20, max: 100 }), (all, limit) => {
        const bucket = new Bucket()
        let now = 1000
        for (const { after, count } of all) {
          now += after
          const wait = take(bucket, now, limit, count)
          if (wait === 0) continue
          expect(take(bucket, now + wait * 0.99 - 0.01, limit, count)).toBeGreaterThan(0)
          now += wait
          expect(take(bucket, now, limit, count)).toBe(0)
        }
      }),
    )
  })

  it('can be dropped when all taken tokens are given back', () => {
    const bucket = new Bucket()
    expect(take(bucket, 0, 100, 80)).toBe(0)
    bucket.correct(-80)
    expect(bucket.left(0, 100)).toStrictEqual({ limit: 100, remaining: 100, resetMs: 0 })
    expect(bucket.isUnused(0)).toBe(true)
  })

  it('goes into debt when more is used than was taken', () => {
    const bucket = new Bucket()
    take(bucket, 0, 60, 10)
    bucket.correct(110)
    expect(bucket.left(0, 60)).toStrictEqual({ limit: 60, remaining: 0, resetMs: 120_000 })
    expect(take(bucket, 0, 60, 1)).toBe(61_000)
    expect(bucket.isUnused(119_000)).toBe(false)
    expect(bucket.isUnused(120_000)).toBe(true)
  })

  it('keeps the taken tokens when the limit changes, and gives nothing with the limit 0', () => {
    const bucket = new Bucket()
    expect(take(bucket, 0, 10, 10)).toBe(0)
    expect(take(bucket, 0, 10, 1)).toBe(6000)
    expect(take(bucket, 0, 12, 2)).toBe(0)
    expect(take(bucket, 0, 0, 1)).toBe(60_000)
    expect(bucket.left(0, 0)).toStrictEqual({ limit: 0, remaining: 0, resetMs: 60_000 })
  })

  it('gives nothing for a clock that is set back', () => {
    const bucket = new Bucket()
    expect(take(bucket, 1_000_000, 1, 1)).toBe(0)
    expect(take(bucket, 0, 1, 1)).toBe(60_000)
    expect(take(bucket, 59_000, 1, 1)).toBeCloseTo(1000)
  })
})

describe('spending', () => {
  const noon = Date.UTC(2026, 10, 30, 12)
  const spent = async (_subject: string, from: string, to: string) => (from === to ? 5 : 70)

  it('begins with the tokens in the ledger, and counts tokens that are spent while the ledger is read', async () => {
    const spending = new Spending('key:1', spent, noon)
    spending.add('2026-11-30', 100)
    await spending.ready
    expect([spending.today(noon), spending.thisMonth(noon)]).toStrictEqual([105, 170])
  })

  it('covers one day, and counts a request on the day on which the request began', async () => {
    const spending = new Spending('key:1', spent, noon)
    await spending.ready
    spending.add('2026-11-29', 3)
    spending.add('2026-11-30', 4)
    spending.add('2026-12-01', 9)
    expect([spending.today(noon), spending.thisMonth(noon)]).toStrictEqual([9, 77])
    const [before, december] = [noon - 86_400_000, Date.UTC(2026, 11, 1)]
    expect([before, noon, december].map((now) => spending.isOf(now))).toStrictEqual([false, true, false])
    expect([spending.today(before), spending.thisMonth(before)]).toStrictEqual([0, 77])
    expect([spending.today(december), spending.thisMonth(december)]).toStrictEqual([0, 0])
  })
})

describe('the headers', () => {
  it("write durations in OpenAI's format", () => {
    const times = [0, 119.2, 999, 1000, 1001, 60_000, 360_000, 61_001]
    expect(times.map(duration)).toStrictEqual(['0ms', '120ms', '999ms', '1s', '2s', '1m0s', '6m0s', '1m2s'])
  })

  it('show what is left in the formats of OpenAI and of the IETF draft', () => {
    const allowance = { limit: 60, remaining: 50, resetMs: 9001 }
    expect(openAiTokenHeaders(allowance)).toStrictEqual({
      'x-ratelimit-limit-tokens': '60',
      'x-ratelimit-remaining-tokens': '50',
      'x-ratelimit-reset-tokens': '10s',
    })
    expect(standardHeaders(allowance)).toStrictEqual({
      'ratelimit-policy': '"requests_per_minute";q=60;w=60',
      ratelimit: '"requests_per_minute";r=50;t=10',
    })
  })
})
