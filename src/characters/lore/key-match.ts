import type { DecoratedRules, LoreEntry } from './entry.ts'
import { firstKeyIn, type Haystack, type LoreKey } from './haystack.ts'

/** Tells whether the keys besides the first list allow a match: secondary ones, and those of decorators. */
export function othersAllow(
  entry: LoreEntry,
  rules: DecoratedRules,
  texts: readonly Haystack[],
  expand: (key: LoreKey) => LoreKey,
  matched: string[],
): boolean {
  const found = (keys: readonly LoreKey[]) => {
    const key = firstKeyIn(keys, texts, entry, expand)
    if (key) matched.push(key.written)
    return key !== undefined
  }
  return (
    rules.additional.every(found) &&
    !(rules.excluded.length > 0 && firstKeyIn(rules.excluded, texts, entry, expand)) &&
    (entry.constant || secondariesAllow(entry, texts, expand, found))
  )
}

function secondariesAllow(
  entry: LoreEntry,
  texts: readonly Haystack[],
  expand: (key: LoreKey) => LoreKey,
  found: (keys: readonly LoreKey[]) => boolean,
): boolean {
  const { secondaryKeys, logic } = entry
  if (secondaryKeys.length === 0) return true
  if (logic === 'any') return found(secondaryKeys)
  if (logic === 'not any') return firstKeyIn(secondaryKeys, texts, entry, expand) === undefined
  const hasAll = secondaryKeys.every((key) => firstKeyIn([key], texts, entry, expand))
  return logic === 'all' ? hasAll : !hasAll
}
