import fc from 'fast-check'
import { expect, it } from 'vitest'
import { readLorebook } from '../../../src/characters/lore/lorebook.ts'
import { maxScanDepth } from '../../../src/characters/lore/scan-depth-cache.ts'

const depth = fc.nat(30)
const entry = fc.record({
  own: fc.option(depth, { nil: undefined }),
  ruled: fc.option(depth, { nil: undefined }),
})

it('the cached scan depth is the largest scan depth of a book and its entries', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(depth, fc.array(entry, { maxLength: 5 })), { maxLength: 4 }), (drawn) => {
      const books = drawn.map(([scan_depth, entries]) => ({
        deepest: Math.max(scan_depth, ...entries.flatMap(({ own = 0, ruled = 0 }) => [own, ruled])),
        book: readLorebook({
          scan_depth,
          entries: entries.map(({ own, ruled }) => ({
            keys: ['tea'],
            content: `${ruled === undefined ? '' : `@@scan_depth ${ruled}\n`}Body`,
            extensions: own === undefined ? {} : { scan_depth: own },
          })),
        }),
      }))
      const asked = () => books.map(({ book }) => maxScanDepth(book))
      const expected = books.map(({ deepest }) => deepest)
      expect([asked(), asked()]).toEqual([expected, expected])
    }),
  )
})
