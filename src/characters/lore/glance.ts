import type { LoreEntry } from './entry.ts'
import type { LoreKey, ScannedText } from './scanned-text.ts'

/**
 * Whether a glance may be enough to judge an entry: its keys decide, and they are searched for in the conversation and in lore alone.
 * A glance takes no generator; where a generator judges each entry, a completion with 1,000 lore entries costs 102 % more CPU time
 * (docs/performance.md).
 */
export function allowsGlance({ constant, recursionLevel, alsoScans }: LoreEntry): boolean {
  return !constant && recursionLevel === 0 && alsoScans.length === 0
}

/** Whether a glance at a text shows that none of the keys occurs: its Bloom filter excludes them all. */
export function lacksAllKeys(text: ScannedText, keys: readonly LoreKey[]): boolean {
  for (const key of keys) if (key.hasMacro === true || !text.surelyLacks(key)) return false
  return true
}
