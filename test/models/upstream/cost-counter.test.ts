import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CostCounter, costOf, EventCostCounter, maxUnitsAtOnce } from '../../../src/models/upstream/cost-counter.ts'
import { failureFrom } from '../../support/ai-sdk.ts'
import { often } from '../../support/often.ts'

/** The cost of a value as JSON: five units for each array and object, and one for each comma. */
function expectedCost(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const members = Object.values(value)
  return 5 + Math.max(0, members.length - 1) + members.reduce((sum, member) => sum + expectedCost(member), 0)
}

/** Cuts a text into pieces at any places. */
const cut = (text: string, places: readonly number[]) => {
  const bytes = Buffer.from(text)
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b)
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end))
}
const places = fc.array(fc.nat(), { maxLength: 5 })

describe('the cost of JSON', () => {
  it('depends on its arrays, objects and values, and not on its strings', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(undefined, 2), (value, indent) => {
        expect(costOf(Buffer.from(JSON.stringify(value, null, indent)))).toBe(expectedCost(value))
      }),
      { numRuns: often(500) },
    )
  })

  it('does not depend on how the bytes are split', () => {
    fc.assert(
      fc.property(fc.array(fc.json(), { maxLength: 3 }), places, (texts, places) => {
        const text = texts.join('\n')
        const counter = new CostCounter()
        for (const piece of cut(text, places)) for (let at = 0; at < piece.length; ) at = counter.next(piece, at)
        expect(counter.units).toBe(costOf(Buffer.from(text)))
      }),
      { numRuns: often(500) },
    )
  })

  it('is known for each event, for all line ends and however the bytes are split', () => {
    const event = fc.record({ value: fc.jsonValue(), end: fc.constantFrom('\n', '\r\n', '\r') })
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 4 }), places, (events, places) => {
        const text = events
          .map(({ value, end }) => `event: {"${end}data: ${JSON.stringify(value)}${end}${end}`)
          .join('')
        const counter = new EventCostCounter()
        const costs: number[] = []
        for (const piece of cut(text, places)) {
          for (let at = 0; at < piece.length; ) {
            const { end, units } = counter.next(piece, at)
            if (units !== undefined) costs.push(units)
            at = end
          }
        }
        expect(costs).toHaveLength(events.length)
        for (const [index, { value }] of events.entries()) {
          expect(costs[index]).toBeGreaterThanOrEqual(5 + expectedCost(value))
        }
      }),
      { numRuns: often(500) },
    )
  })

  it('has a bound for each event, but not for a whole stream', async () => {
    const counter = new EventCostCounter()
    const light = Buffer.from(`data: [${'1,'.repeat(maxUnitsAtOnce - 6)}1]\n\n`)
    for (let count = 0; count < 3; count++) expect(counter.next(light, 0).end).toBe(light.length)
    const heavy = Buffer.from(`data: [${'1,'.repeat(maxUnitsAtOnce - 5)}1,1]\n\n`)
    const failure = await failureFrom(Promise.resolve().then(() => counter.next(heavy, 0)))
    expect(failure).toMatchObject({ status: 502, code: 'upstream_error' })
  })
})
