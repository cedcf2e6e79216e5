import fc from 'fast-check'
import { expect, it } from 'vitest'
import { PrefetchedRandomIds } from '../../src/http/prefetched-random-ids.ts'

/** Draws the next bytes of a fixed sequence, which a seed begins. */
function drawFrom(seed: number): (bytes: Buffer) => void {
  let state = seed
  return (bytes) => {
    for (let index = 0; index < bytes.length; index++) {
      state = (state * 48_271) % 2_147_483_647
      bytes[index] = state & 0xff
    }
  }
}

it('gives the ids that one draw for each id would give: it skips no byte and uses none twice', () => {
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
