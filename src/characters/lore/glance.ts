import type { LoreEntry } from './entry.ts'
import type { LoreKey, ScannedText } from './scanned-text.ts'

/**
 * Whether a glance may show that an entry does not match. A glance is one call of `surelyLacks` for each key, without a
 * generator. It is possible only if the keys alone activate the entry, and are searched for only in the conversation and in lore.
 * Without glances, a completion with 1,000 lore entries costs 102 % more CPU time (docs/performance.md).
 */
export function allowsGlance({ constant, recursionLevel, alsoScans }: LoreEntry): boolean {
  return !constant && recursionLevel === 0 && alsoScans.length === 0
}

/** Whether a glance at a text shows that none of the keys occurs; false if a key has macros or a valid regular expression. */
export function lacksAllKeys(text: ScannedText, keys: readonly LoreKey[]): boolean {
  for (const key of keys) if (key.hasMacro === true || !text.surelyLacks(key)) return false
  return true
}
