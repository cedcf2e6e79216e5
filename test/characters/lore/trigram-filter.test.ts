import fc from 'fast-check'
import { expect, it } from 'vitest'
import { plainKey } from '../../../src/characters/lore/keys.ts'
import { ScanBudget } from '../../../src/characters/lore/scan-budget.ts'
import { ScannedText } from '../../../src/characters/lore/scanned-text.ts'
import { TrigramFilter, trigramsOf } from '../../../src/characters/lore/trigram-filter.ts'
import { often } from '../../support/often.ts'

const letter = fc.constantFrom('a', 'b', 'c', 'A', ' ', '\n', 'é', 'Ж', '茶', '🌱', '\ud83c', 'ß')
const word = fc.string({ unit: letter, minLength: 1, maxLength: 8 })

/** Texts of many lengths, so that their filters have all sizes: the same words up to 2,000 times, each time with a number. */
const text = fc
  .tuple(fc.array(word, { maxLength: 12 }), fc.constantFrom(1, 1, 30, 2000))
  .map(([words, count]) =>
    Array.from({ length: count }, (_none, index) => `${words.join(index % 7 ? '' : ' ')}${index}`),
  )
  .map((parts) => parts.join(''))

/** Keys, many of which occur in a text: parts of the text, as they are or in upper case, and other words. */
const keysFor = (within: string) =>
  fc.array(
    fc.oneof(
      word,
      fc
        .tuple(fc.nat(within.length), fc.integer({ min: 1, max: 9 }), fc.boolean())
        .map(([start, length, isUpper]) => {
          const part = within.slice(start, start + length)
          return isUpper ? part.toUpperCase() : part
        })
        .filter((part) => part !== ''),
    ),
    { minLength: 1, maxLength: 30 },
  )
const textAndKeys = text.chain((within) => fc.tuple(fc.constant(within), keysFor(within)))

it('a filter never excludes a key that String.includes finds, from the first search on', () => {
  fc.assert(
    fc.property(textAndKeys, fc.boolean(), fc.boolean(), ([within, keys], isPrepared, hasFilters) => {
      const budget = new ScanBudget()
      if (!hasFilters) budget.filtersLeft = 0
      const lower = within.toLowerCase()
      const filter = new TrigramFilter(lower, budget)
      if (isPrepared) filter.prepare()
      const excluded = keys.map((key) => key.toLowerCase()).filter((key) => !filter.mayContain(key, trigramsOf(key)))
      expect(excluded.filter((key) => lower.includes(key))).toEqual([])
    }),
    { numRuns: often(300) },
  )
})

it('a text has exactly the keys that String.includes finds, with and without regard to letter case', () => {
  fc.assert(
    fc.property(textAndKeys, ([within, keys]) => {
      const scanned = new ScannedText(within, new ScanBudget())
      const lower = within.toLowerCase()
      for (const key of keys.map(plainKey)) {
        expect(scanned.has(key, false, false)).toBe(lower.includes(key.written.toLowerCase()))
        expect(scanned.has(key, true, false)).toBe(within.includes(key.written))
      }
    }),
    { numRuns: often(300) },
  )
})

it('a part of a text has exactly the keys that String.includes finds, although it uses the filter of the whole text', () => {
  fc.assert(
    fc.property(textAndKeys, fc.nat(60), fc.nat(60), ([within, keys], start, length) => {
      const budget = new ScanBudget()
      const whole = new ScannedText(within, budget)
      const lower = within.toLowerCase()
      whole.prepare()
      const part = new ScannedText(within, budget, lower.slice(start, start + length), whole)
      for (const key of keys.map(plainKey)) {
        const expected = lower.slice(start, start + length).includes(key.written.toLowerCase())
        expect(part.has(key, false, false)).toBe(expected)
      }
      expect(budget.filtersLeft).toBe(new ScanBudget().filtersLeft - 1)
    }),
    { numRuns: often(200) },
  )
})

it.each([100, 4000, 5000, 60_000])(
  'the filter of a text of %i characters excludes most keys that do not occur',
  (length) => {
    const lower = Array.from({ length }, (_none, index) => index.toString(36))
      .join(' ')
      .slice(0, length)
    const filter = new TrigramFilter(lower, new ScanBudget())
    filter.prepare()
    const keys = Array.from({ length: 1000 }, (_none, index) => `${String.fromCharCode(97 + (index % 26))}-q${index}é`)
    const passed = keys.filter((key) => filter.mayContain(key, trigramsOf(key)))
    expect(keys.filter((key) => lower.includes(key))).toEqual([])
    expect(passed.length).toBeLessThan(100)
  },
)

it('a text is searched four times without a filter, and then gets one filter', () => {
  const budget = new ScanBudget()
  const { filtersLeft } = budget
  const filter = new TrigramFilter('a cup of tea', budget)
  const made = Array.from({ length: 8 }, () => {
    filter.mayContain('pot', trigramsOf('pot'))
    return filtersLeft - budget.filtersLeft
  })
  expect(made).toEqual([0, 0, 0, 0, 1, 1, 1, 1])
})
