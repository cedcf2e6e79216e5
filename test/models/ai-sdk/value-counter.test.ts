import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ApiError } from '../../../src/errors.ts'
import { ValueCounter } from '../../../src/models/ai-sdk/bounded-answer.ts'

/** Five for each array and object, and one for each comma. */
function expectedValues(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const members = Object.values(value)
  return 5 + Math.max(0, members.length - 1) + members.reduce((sum, member) => sum + expectedValues(member), 0)
}

/** Cuts a text into pieces at any places. */
function cut(text: string, places: readonly number[]): readonly Buffer[] {
  const bytes = Buffer.from(text)
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b)
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end))
}
const places = fc.array(fc.nat(), { maxLength: 5 })

test('the values of JSON are its arrays, objects and items, and not its strings, however the bytes are split', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(undefined, 2), places, (value, indent, places) => {
      const counter = new ValueCounter(false)
      for (const piece of cut(JSON.stringify(value, null, indent), places)) counter.add(piece)
      expect(counter.values).toBe(expectedValues(value))
    }),
    { numRuns: 500 },
  )
})

test('events are counted for all line ends, and the bytes and values of the last one', () => {
  const event = fc.record({ value: fc.jsonValue(), end: fc.constantFrom('\n', '\r\n', '\r') })
  fc.assert(
    fc.property(fc.array(event, { minLength: 1, maxLength: 4 }), fc.jsonValue(), places, (events, last, places) => {
      const ended = events.map(({ value, end }) => `event: {"${end}data: ${JSON.stringify(value)}${end}${end}`).join('')
      const unfinished = `data: ${JSON.stringify(last)}`
      const counter = new ValueCounter(true)
      for (const piece of cut(ended + unfinished, places)) counter.add(piece)
      // The line feed of a last `\r\n` belongs to no event.
      const lineFeed = events.at(-1)?.end === '\r\n' ? 1 : 0
      expect(counter).toMatchObject({ events: events.length, values: expectedValues(last) })
      expect(counter.bytes).toBe(Buffer.byteLength(unfinished) + lineFeed)
    }),
    { numRuns: 500 },
  )
})

test('each event has a bound of values, but not a whole stream', () => {
  const counter = new ValueCounter(true)
  const light = Buffer.from(`data: [${'1,'.repeat(24_990)}1]\n\n`)
  for (let count = 0; count < 3; count++) counter.add(light)
  const heavy = Buffer.from(`data: [${'1,'.repeat(25_000)}1]\n\n`)
  expect(() => counter.add(heavy)).toThrow(ApiError)
})
