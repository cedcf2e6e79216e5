import { hashOf } from '../../characters/macros/seeded-random.ts'

/**
 * Picks one of the items: the same item for the same text, and with each step the next one until all were picked. Undefined for
 * no items.
 */
export function pick<T>(items: readonly T[], text: string, step = 0): T | undefined {
  return items[(hashOf(text) + step) % items.length]
}
