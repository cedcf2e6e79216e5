import { describe, expect, it } from 'vitest'
import { OutOfFuel, spend, spentUnits, withFuel } from '../../src/work/fuel.ts'
import { cachedInWorker } from '../../src/work/worker-cache.ts'

const MiB = 1024 ** 2

/** Asks for the values of digests in turn. @returns the digests whose values were made */
function madeOf(kind: string, digests: readonly string[], bytes = 4 * MiB): readonly string[] {
  const made: string[] = []
  for (const digest of digests) cachedInWorker(kind, digest, bytes, () => made.push(digest))
  return made
}

describe('the cache of a worker', () => {
  it('keeps up to 16 MiB, and drops the value that was not used for the longest time', () => {
    expect(madeOf('card', ['a', 'b', 'c', 'd', 'a', 'd', 'e', 'b', 'a'])).toEqual(['a', 'b', 'c', 'd', 'e', 'b'])
    expect(madeOf('card', ['large'], 16 * MiB)).toEqual(['large'])
    expect(madeOf('card', ['large'], 16 * MiB)).toEqual([])
    expect(madeOf('card', ['too large'], 16 * MiB + 1)).toEqual(['too large'])
    expect(madeOf('card', ['too large', 'large'], 16 * MiB + 1)).toEqual(['too large'])
  })

  it('keeps the values of each kind apart', () => {
    expect(madeOf('one', ['x'])).toEqual(['x'])
    expect(madeOf('other', ['x'])).toEqual(['x'])
  })

  it('costs the same units each time', () => {
    const get = () =>
      withFuel(100, () => {
        cachedInWorker('costly', 'x', 1, () => spend(60))
        return spentUnits()
      })
    expect([get(), get()]).toEqual([60, 60])
    expect(() => withFuel(59, () => cachedInWorker('costly', 'x', 1, () => {}))).toThrow(OutOfFuel)
  })

  it('keeps nothing of a value whose making was given up', () => {
    expect(() => withFuel(1, () => cachedInWorker('given-up', 'x', 1, () => spend(2)))).toThrow(OutOfFuel)
    expect(madeOf('given-up', ['x'])).toEqual(['x'])
  })
})
