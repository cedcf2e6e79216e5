import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OutOfFuel, spend, spentUnits, tooComplex, withFuel } from '../../src/work/fuel.ts'
import { often } from '../support/often.ts'

describe('fuel', () => {
  it('ends a function exactly when the sum of its units exceeds the budget', () => {
    const amounts = fc.array(fc.nat(1000), { maxLength: 50 })
    fc.assert(
      fc.property(fc.nat(20_000), amounts, (budget, all) => {
        const sum = all.reduce((total, units) => total + units, 0)
        const run = () =>
          withFuel(budget, () => {
            for (const units of all) spend(units)
            return spentUnits()
          })
        if (sum > budget) expect(run).toThrow(OutOfFuel)
        else expect(run()).toBe(sum)
      }),
      { numRuns: often(100) },
    )
  })

  it('of an inner run is its own, and the outer budget continues as it was, whatever the inner run does', () => {
    fc.assert(
      fc.property(fc.nat(100), fc.nat(200), fc.nat(100), (before, inner, budget) => {
        withFuel(1000, () => {
          spend(before)
          try {
            withFuel(budget, () => spend(inner))
            expect(inner).toBeLessThanOrEqual(budget)
          } catch (error) {
            expect(error).toBeInstanceOf(OutOfFuel)
            expect(inner).toBeGreaterThan(budget)
          }
          expect(spentUnits()).toBe(before)
        })
      }),
      { numRuns: often(100) },
    )
  })

  it('does nothing outside of a run', () => {
    for (const units of [1, 1e9, 1e300, Number.NaN]) spend(units)
    for (let round = 0; round < 100; round++) spend(2 ** 29)
    expect(spentUnits()).toBe(0)
    expect(withFuel(10, () => spentUnits())).toBe(0)
    expect(spentUnits()).toBe(0)
  })

  it.each([
    ['returns a result all the same', () => 'incomplete'],
    [
      'throws another error instead',
      () => {
        throw new Error('not this one')
      },
    ],
  ])('that is spent ends a function that catches the error and %s', (_, then) => {
    const run = () =>
      withFuel(10, () => {
        expect(() => spend(11)).toThrow(OutOfFuel)
        expect(() => spend(0)).toThrow(OutOfFuel)
        return then()
      })
    expect(run).toThrow(OutOfFuel)
  })

  it('is spent by a wrong number of units', () => {
    expect(() => withFuel(10, () => spend(Number.NaN))).toThrow(OutOfFuel)
  })

  it('passes other errors on', () => {
    const error = new Error('broken')
    const run = () =>
      withFuel(10, () => {
        throw error
      })
    expect(run).toThrow(error)
    expect(spentUnits()).toBe(0)
  })

  it('that is spent by a request is a 400 that names the field', () => {
    const { status, code, param, message } = tooComplex('messages')
    expect({ status, code, param }).toEqual({ status: 400, code: 'too_complex', param: 'messages' })
    expect(message).toBe('"messages" causes more work than one request may cause. Send a smaller or simpler one.')
  })
})
