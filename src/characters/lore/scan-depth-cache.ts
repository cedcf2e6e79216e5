import type { Lorebook } from './lorebook.ts'

const depths = new WeakMap<Lorebook, number>()

/**
 * The largest scan depth of a book and its entries, in messages. It is cached for each book: without the cache, a completion with
 * 1,000 lore entries costs 7 % more CPU time (docs/performance.md).
 */
export function maxScanDepth(book: Lorebook): number {
  const known = depths.get(book)
  if (known !== undefined) return known
  const depth = findMaxScanDepth(book)
  depths.set(book, depth)
  return depth
}

function findMaxScanDepth({ entries, scanDepth }: Lorebook): number {
  let deepest = scanDepth
  for (const entry of entries) {
    deepest = Math.max(deepest, entry.scanDepth ?? 0)
    if (entry.decorators[0]?.scanDepth !== undefined) {
      deepest = Math.max(deepest, ...entry.decorators.map((rules) => rules.scanDepth ?? 0))
    }
  }
  return deepest
}
