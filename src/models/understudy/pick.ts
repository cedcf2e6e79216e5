import { hashOf } from '../../characters/macros/seeded-random.ts'

/**
 * Picks one of the items by the hash of a text, so the same text picks the same item. With a higher `step`, picks a later item.
 * Undefined if there are no items.
 */
export function pick<T>(items: readonly T[], text: string, step = 0): T | undefined {
  return items[(hashOf(text) + step) % items.length]
}
