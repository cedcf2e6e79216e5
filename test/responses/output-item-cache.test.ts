import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { OutputItem } from '../../src/openai/response.ts'
import { OutputItemCache } from '../../src/responses/output-item-cache.ts'

const itemOf = (id: string, length: number): OutputItem => ({
  type: 'message',
  id,
  status: 'completed',
  role: 'assistant',
  content: [{ type: 'output_text', text: 'x'.repeat(length), annotations: [], logprobs: [] }],
})

test('an item is kept for an hour, only for its account', () => {
  let now = 5
  const kept = new OutputItemCache(() => now)
  const item = itemOf('a', 10)
  kept.keep(1, [item])
  expect(kept.find(1, 'a')?.item).toBe(item)
  expect(kept.find(2, 'a')).toBeUndefined()
  now += 3_599_999
  expect(kept.find(1, 'a')?.item).toBe(item)
  now += 1
  expect(kept.find(1, 'a')).toBeUndefined()
})

test('kept items are bounded per account and in all; the newest stay', () => {
  const most = 16 * 1024 ** 2
  const calls = fc.array(
    fc.record({ account: fc.integer({ min: 1, max: 6 }), length: fc.constantFrom(10, 1e5, 2e6, 3e6) }),
    {
      maxLength: 60,
    },
  )
  fc.assert(
    fc.property(calls, (made) => {
      const kept = new OutputItemCache(() => 0)
      for (const [index, { account, length }] of made.entries()) {
        kept.keep(account, [itemOf(`i${index}`, length)])
        expect(kept.find(account, `i${index}`)).toBeDefined()
      }
      const sizes = made.map(({ account, length }, index) => ({
        account,
        length: kept.find(account, `i${index}`) ? length : 0,
      }))
      const sum = (of: readonly { length: number }[]) => of.reduce((total, { length }) => total + length, 0)
      expect(sum(sizes)).toBeLessThanOrEqual(most)
      for (const { account } of made) {
        expect(sum(sizes.filter((size) => size.account === account))).toBeLessThanOrEqual(most / 4)
      }
    }),
    { numRuns: 30 },
  )
})

test('an item larger than the bound of an account is not kept', () => {
  const kept = new OutputItemCache(() => 0)
  kept.keep(1, [itemOf('a', 5e6), itemOf('b', 10)])
  expect(kept.find(1, 'a')).toBeUndefined()
  expect(kept.find(1, 'b')).toBeDefined()
})
