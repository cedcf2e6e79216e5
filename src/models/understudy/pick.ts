import { hashOf } from '../../characters/macros/seeded-random.ts'

/**
 * One of the items, always the same for the same text, and another for each step from it until all were taken;
 * undefined when there are none.
 */
export function pick<T>(items: readonly T[], text: string, step = 0): T | undefined {
  return items[(hashOf(text) + step) % items.length]
}
