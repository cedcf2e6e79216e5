import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { partsOf, readPeriod } from '../../src/usage/period.ts'

const seconds = (moment: string) => Date.parse(moment) / 1000
const now = seconds('2026-11-20T15:30:00Z')

describe('the period of a report', () => {
  test('is the last 30 days up to now, today included', () => {
    expect(readPeriod({}, now)).toEqual({ from: seconds('2026-10-22T00:00:00Z'), until: now + 1 })
  })

  test('includes both named days', () => {
    expect(readPeriod({ from: '2026-02-28', to: '2026-03-01' }, now)).toEqual({
      from: seconds('2026-02-28T00:00:00Z'),
      until: seconds('2026-03-02T00:00:00Z'),
    })
    expect(readPeriod({ to: '2026-11-30' }, now).from).toBe(seconds('2026-11-01T00:00:00Z'))
  })

  test('includes its first moment and not its last, in any time zone', () => {
    expect(readPeriod({ from: '2026-11-20T08:00:00+01:00', to: '2026-11-20T08:00Z' }, now)).toEqual({
      from: seconds('2026-11-20T07:00:00Z'),
      until: seconds('2026-11-20T08:00:00Z'),
    })
    // The ledger has whole seconds, so the fraction is rounded up.
    expect(readPeriod({ from: '2026-11-20T07:00:00.25Z' }, now).from).toBe(seconds('2026-11-20T07:00:01Z'))
  })

  test('without its beginning is from a given moment, and a fault names the other parameter', () => {
    expect(readPeriod({ to: '1970-01-01' }, now, 0)).toEqual({ from: 0, until: 86_400 })
    expect(() => readPeriod({ to: '1960-01-01' }, now, 0)).toThrow(expect.objectContaining({ param: 'to' }))
  })

  test.each([
    ['from', { from: '2026-02-30' }],
    ['from', { from: 'yesterday' }],
    ['from', { from: '' }],
    ['from', { from: '20261120' }],
    ['from', { from: '2026-11-20T08:00:00' }],
    ['from', { from: '2026-11-20T25:00:00Z' }],
    ['from', { from: '2026-11-21' }],
    ['from', { from: '2026-11-21', to: '2026-11-20' }],
    ['to', { to: '2026-13-01' }],
    ['to', { to: '1795166122' }],
    ['to', { to: '2026-11-20 ' }],
  ])('is refused with the name of the parameter: %s of %j', (param, written) => {
    const refused = expect(() => readPeriod(written, now))
    refused.toThrow(ApiError)
    refused.toThrow(
      expect.objectContaining({ status: 400, param, message: expect.stringMatching(/^The value of .+\.$/) }),
    )
  })
})

describe('a period', () => {
  test('splits into whole days and rests of days; today is a whole day if the period ends now', () => {
    expect(partsOf({ from: seconds('2026-10-22T00:00:00Z'), until: now + 1 }, now)).toEqual({
      days: { from: seconds('2026-10-22T00:00:00Z'), until: seconds('2026-11-21T00:00:00Z') },
      rest: [],
    })
    expect(partsOf({ from: seconds('2026-11-01T08:00:00Z'), until: seconds('2026-11-04T00:00:01Z') }, now)).toEqual({
      days: { from: seconds('2026-11-02T00:00:00Z'), until: seconds('2026-11-04T00:00:00Z') },
      rest: [
        { from: seconds('2026-11-01T08:00:00Z'), until: seconds('2026-11-02T00:00:00Z') },
        { from: seconds('2026-11-04T00:00:00Z'), until: seconds('2026-11-04T00:00:01Z') },
      ],
    })
    const inOneDay = { from: seconds('2026-11-01T08:00:00Z'), until: seconds('2026-11-01T09:00:00Z') }
    expect(partsOf(inOneDay, now)).toEqual({ days: undefined, rest: [inOneDay] })
  })

  test('has each past moment in exactly one part', () => {
    const moments = fc.integer({ min: -200_000, max: 400_000 })
    fc.assert(
      fc.property(moments, fc.integer({ min: 1, max: 300_000 }), moments, moments, (from, length, today, moment) => {
        const until = from + length
        const { days, rest } = partsOf({ from, until }, today)
        const parts = days ? [days, ...rest] : rest
        const having = parts.filter((part) => moment >= part.from && moment < part.until)
        if (moment <= today) expect(having).toHaveLength(moment >= from && moment < until ? 1 : 0)
        expect([days?.from ?? 0, days?.until ?? 0].map((end) => Math.abs(end % 86_400))).toEqual([0, 0])
      }),
    )
  })
})
