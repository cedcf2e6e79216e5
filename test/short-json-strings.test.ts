import fc from 'fast-check'
import { expect, it } from 'vitest'
import { endOfShortString } from '../src/short-json-strings.ts'

it('finds the end of every short string without an escape, and of no other string', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 20 }), fc.string(), (value, more) => {
      const written = JSON.stringify(value)
      const end = endOfShortString(`[${written}${more}`, 2)
      const isPlain = written === `"${value}"`
      expect(end).toBe(isPlain ? written.length : undefined)
    }),
  )
})

it('leaves strings without an end, and long strings of a long text, to the parser', () => {
  expect(endOfShortString('["unended', 2)).toBeUndefined()
  expect(endOfShortString(`["${'x'.repeat(13)}"`.padEnd(5000), 2)).toBeUndefined()
  expect(endOfShortString(`["${'x'.repeat(12)}"`.padEnd(5000), 2)).toBe(14)
})
