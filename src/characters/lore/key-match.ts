import type { Steps } from '../../work.ts'
import type { DecoratedRules, LoreEntry } from './entry.ts'
import { firstKeyIn, type KeySearch, type LoreKey, type ScannedText } from './scanned-text.ts'

/**
 * Whether the secondary keys and the keys of decorators allow a match.
 * @param matched receives the found keys
 */
export function* otherKeysAllow(
  entry: LoreEntry,
  rules: DecoratedRules,
  texts: readonly ScannedText[],
  search: KeySearch,
  matched: string[],
): Steps<boolean> {
  for (const keys of rules.additional) if (!(yield* found(entry, keys, texts, search, matched))) return false
  if (rules.excluded.length > 0 && (yield* firstKeyIn(rules.excluded, texts, entry, search))) return false
  return entry.constant || (yield* secondariesAllow(entry, texts, search, matched))
}

function* secondariesAllow(
  entry: LoreEntry,
  texts: readonly ScannedText[],
  search: KeySearch,
  matched: string[],
): Steps<boolean> {
  const { secondaryKeys, logic } = entry
  if (secondaryKeys.length === 0) return true
  if (logic === 'any') return yield* found(entry, secondaryKeys, texts, search, matched)
  if (logic === 'not any') return (yield* firstKeyIn(secondaryKeys, texts, entry, search)) === undefined
  for (const key of secondaryKeys) {
    if (!(yield* firstKeyIn([key], texts, entry, search))) return logic !== 'all'
  }
  return logic === 'all'
}

/** Whether one of the keys occurs. The first key that occurs is added to `matched`. */
function* found(
  entry: LoreEntry,
  keys: readonly LoreKey[],
  texts: readonly ScannedText[],
  search: KeySearch,
  matched: string[],
): Steps<boolean> {
  const key = yield* firstKeyIn(keys, texts, entry, search)
  if (key) matched.push(key.written)
  return key !== undefined
}
