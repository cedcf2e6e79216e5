import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ignoredHeader } from '../../src/http/ignored-params.ts'

describe('the header x-ignored-params', () => {
  it('has the names that fit, encoded and in order, and the number of the names that do not fit', () => {
    const unit = fc.oneof(fc.constantFrom('a', ',', ' ', 'ü', '🌵', '\ud800', '%', '+', '\n', ''), fc.string())
    const name = fc.tuple(unit, fc.nat({ max: 1500 })).map(([text, times]) => text.repeat(times))
    fc.assert(
      fc.property(fc.array(name, { minLength: 1, maxLength: 40 }), (names) => {
        const encoded = names.map((each) => encodeURIComponent(each.toWellFormed()))
        const fits = (count: number) => encoded.slice(0, count).join(',').length < 4096
        const whole = names.findLastIndex((_, index) => fits(index + 1)) + 1
        const rest = names.length - whole
        const expected = [...encoded.slice(0, whole), ...(rest > 0 ? [`+${rest}`] : [])]
        expect(ignoredHeader(names)).toBe(expected.join(','))
      }),
    )
  })

  it('stays short for names of megabytes, and counts these names', () => {
    const long = '🌵'.repeat(1_000_000)
    expect(ignoredHeader([long, 'a'])).toBe('+2')
    expect(ignoredHeader(['a', long, 'b'])).toBe('a,+2')
  })
})
