import { describe, expect, test } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { readPeriod } from '../../src/usage/period.ts'

const seconds = (moment: string) => Date.parse(moment) / 1000
const now = seconds('2026-11-20T15:30:00Z')

describe('the period of a report', () => {
  test('is the last 30 days up to now, today among them', () => {
    expect(readPeriod({}, now)).toEqual({ from: seconds('2026-10-22T00:00:00Z'), until: now + 1 })
  })

  test('has all of the days that are named', () => {
    expect(readPeriod({ from: '2026-02-28', to: '2026-03-01' }, now)).toEqual({
      from: seconds('2026-02-28T00:00:00Z'),
      until: seconds('2026-03-02T00:00:00Z'),
    })
    expect(readPeriod({ to: '2026-11-30' }, now).from).toBe(seconds('2026-11-01T00:00:00Z'))
  })

  test('begins with its first moment and ends before its last, wherever they are written', () => {
    expect(readPeriod({ from: '2026-11-20T08:00:00+01:00', to: '2026-11-20T08:00Z' }, now)).toEqual({
      from: seconds('2026-11-20T07:00:00Z'),
      until: seconds('2026-11-20T08:00:00Z'),
    })
    // A second is the ledger's finest: a part of one has passed the second that it lies in.
    expect(readPeriod({ from: '2026-11-20T07:00:00.25Z' }, now).from).toBe(seconds('2026-11-20T07:00:01Z'))
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
  ])('is refused by the name of its part: %s of %j', (param, written) => {
    const refused = expect(() => readPeriod(written, now))
    refused.toThrow(ApiError)
    refused.toThrow(
      expect.objectContaining({ status: 400, param, message: expect.stringMatching(/^The value of .+\.$/) }),
    )
  })
})
