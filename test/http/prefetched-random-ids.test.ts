import fc from 'fast-check'
import { expect, it } from 'vitest'
import { PrefetchedRandomIds } from '../../src/http/prefetched-random-ids.ts'

/** Makes a function that draws the next bytes of a sequence. Functions with the same seed draw the same sequence. */
function drawFrom(seed: number): (bytes: Buffer) => void {
  let state = seed
  return (bytes) => {
    for (let index = 0; index < bytes.length; index++) {
      state = (state * 48_271) % 2_147_483_647
      bytes[index] = state & 0xff
    }
  }
}

it('gives the same ids as one draw for each id: no byte is skipped or used twice', () => {
  const seeds = fc.integer({ min: 1, max: 2_147_483_646 })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.nat(800), seeds, (idBytes, count, seed) => {
      const ids = new PrefetchedRandomIds(idBytes, drawFrom(seed))
      const draw = drawFrom(seed)
      const drawOne = () => {
        const bytes = Buffer.alloc(idBytes)
        draw(bytes)
        return bytes.toString('hex')
      }
      expect(Array.from({ length: count }, () => ids.next())).toEqual(Array.from({ length: count }, drawOne))
    }),
  )
})
