import type { LoreEntry } from './entry.ts'
import type { LoreKey, ScannedText } from './scanned-text.ts'

/**
 * Whether a glance at a text can show that an entry does not match. A glance calls `surelyLacks` once for each key.
 * A glance is possible if only keys activate the entry, and if only messages and lore are searched for these keys.
 * Without glances, a completion with 1,000 lore entries costs 102 % more CPU time (docs/performance.md).
 */
export function allowsGlance({ constant, recursionLevel, alsoScans }: LoreEntry): boolean {
  return !constant && recursionLevel === 0 && alsoScans.length === 0
}

/** Whether a glance at a text shows that none of the keys occurs; false if a key has macros or is a valid regular expression. */
export function lacksAllKeys(text: ScannedText, keys: readonly LoreKey[]): boolean {
  for (const key of keys) if (key.hasMacro === true || !text.surelyLacks(key)) return false
  return true
}
