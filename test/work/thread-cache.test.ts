import { describe, expect, it } from 'vitest'
import { OutOfFuel, spend, withFuel } from '../../src/work/fuel.ts'
import { cachedInThread } from '../../src/work/thread-cache.ts'

const MiB = 1024 ** 2

/** Asks for the values of digests in turn. @returns the digests whose values were made */
function madeOf(kind: string, digests: readonly string[], bytes = 8 * MiB): readonly string[] {
  const made: string[] = []
  for (const digest of digests) {
    cachedInThread(
      kind,
      digest,
      () => made.push(digest),
      () => bytes,
    )
  }
  return made
}

describe('the cache of a thread', () => {
  it('keeps up to 32 MiB, or one larger value, and drops the value that was not used for the longest time', () => {
    expect(madeOf('card', ['a', 'b', 'c', 'd', 'a', 'd', 'e', 'b', 'a'])).toEqual(['a', 'b', 'c', 'd', 'e', 'b'])
    expect(madeOf('card', ['large', 'large'], 40 * MiB)).toEqual(['large'])
    expect(madeOf('card', ['a', 'large'])).toEqual(['a', 'large'])
  })

  it('keeps the values of each kind apart', () => {
    expect(madeOf('one', ['x'])).toEqual(['x'])
    expect(madeOf('other', ['x'])).toEqual(['x'])
  })

  it('keeps nothing of a value whose making was given up', () => {
    const costly = () =>
      cachedInThread(
        'given-up',
        'x',
        () => spend(2),
        () => 1,
      )
    expect(() => withFuel(1, costly)).toThrow(OutOfFuel)
    expect(madeOf('given-up', ['x'])).toEqual(['x'])
  })
})
