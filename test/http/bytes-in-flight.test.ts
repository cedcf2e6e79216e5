import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { BytesInFlight, type HeldBytes } from '../../src/http/bytes-in-flight.ts'
import { often } from '../support/often.ts'

const maxBytes = 1_000_000

describe('the bytes in flight', () => {
  it("never exceed the bound nor an account's share, and are 0 when all requests are over, in any order of requests", async () => {
    const step = fc.record({
      request: fc.nat({ max: 11 }),
      what: fc.oneof(
        { weight: 6, arbitrary: fc.record({ bytes: fc.nat({ max: 700_000 }) }) },
        { weight: 2, arbitrary: fc.constant('end' as const) },
        { weight: 1, arbitrary: fc.constant('work' as const) },
      ),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
        const inFlight = new BytesInFlight(maxBytes)
        const requests = new Map<number, { readonly held: HeldBytes; bytes: number; isFirst: boolean }>()
        const sumOf = (account: number) =>
          [...requests].reduce((sum, [id, { bytes }]) => sum + (id % 4 === account ? bytes : 0), 0)
        const sum = () => [0, 1, 2, 3].reduce((all, account) => all + sumOf(account), 0)
        let refusals = 0
        for (const { request, what } of steps) {
          const account = request % 4
          const known = requests.get(request) ?? { held: inFlight.open(account), bytes: 0, isFirst: false }
          requests.set(request, known)
          if (what === 'end') {
            known.held.release()
            requests.delete(request)
          } else if (what === 'work') {
            // While the work runs, its bytes stay counted, even after the reply. Here the work ends at once.
            await known.held.during(Promise.resolve())
          } else {
            const bytes = what.bytes <= 65_536 ? 0 : what.bytes
            if (known.bytes === 0) known.isFirst = sumOf(account) === 0
            const more = bytes - known.bytes
            const room = known.isFirst ? maxBytes : (maxBytes * 3) / 4
            const isFit = more <= 0 || (sum() + more <= room && sumOf(account) + more <= maxBytes / 2)
            if (isFit) {
              known.held.set(what.bytes)
              known.bytes = bytes
            } else {
              refusals++
              expect(() => known.held.set(what.bytes)).toThrow(ApiError)
            }
          }
          expect(inFlight.bytes).toBe(sum())
          expect(inFlight.bytes).toBeLessThanOrEqual(maxBytes)
        }
        expect(inFlight.refusals).toBe(refusals)
        for (const { held } of requests.values()) held.release()
        expect(inFlight.bytes).toBe(0)
      }),
      { numRuns: often(300) },
    )
  })

  it('leave the last quarter of the bound to accounts without other bytes in flight', () => {
    const inFlight = new BytesInFlight(maxBytes)
    for (const account of [1, 2, 3]) inFlight.open(account).set(maxBytes / 4)
    expect(() => inFlight.open(3).set(65_537)).toThrow('have no room now')
    const newcomer = inFlight.open(4)
    newcomer.set(70_000)
    // The first request of the account may grow into the last quarter.
    newcomer.set(maxBytes / 4)
    expect(inFlight.bytes).toBe(maxBytes)
    expect(inFlight.refusals).toBe(1)
  })

  it('stay counted while work needs them, also after the reply is over', async () => {
    const inFlight = new BytesInFlight(maxBytes)
    const held = inFlight.open(1)
    held.set(100_000)
    const { promise, resolve } = Promise.withResolvers<string>()
    const working = held.during(promise)
    held.release()
    expect(inFlight.bytes).toBe(100_000)
    resolve('done')
    expect(await working).toBe('done')
    expect(inFlight.bytes).toBe(0)
    held.set(100_000)
    expect(inFlight.bytes).toBe(0)
    await expect(inFlight.during(1, 100_000, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(inFlight.bytes).toBe(0)
  })
})
