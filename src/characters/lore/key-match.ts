import type { DecoratedRules, LoreEntry } from './entry.ts'
import type { Haystack } from './haystack.ts'
import type { LoreKey } from './keys.ts'

/** The first of the keys that occurs in one of the texts. @param expand gives a key with its macros expanded */
export function firstKeyIn(
  keys: readonly LoreKey[],
  texts: readonly Haystack[],
  { caseSensitive, wholeWords }: LoreEntry,
  expand: (key: LoreKey) => LoreKey,
): LoreKey | undefined {
  for (const key of keys) {
    const expanded = key.hasMacro === true ? expand(key) : key
    for (const text of texts) if (text.has(expanded, caseSensitive, wholeWords)) return key
  }
  return undefined
}

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
