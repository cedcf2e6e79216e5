import type { Steps } from '../../work.ts'
import type { DecoratedRules, LoreEntry } from './entry.ts'
import { firstKeyIn, type KeyRules, type KeySearch, type LoreKey, type ScannedText } from './scanned-text.ts'

/** The rules by which the keys of an entry are searched for. Decorators override the fields of the entry. */
export function keyRulesOf(entry: LoreEntry, { wholeWords }: DecoratedRules): KeyRules {
  return wholeWords === undefined ? entry : { caseSensitive: entry.caseSensitive, wholeWords }
}

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
  const how = keyRulesOf(entry, rules)
  for (const keys of rules.additional) if (!(yield* found(how, keys, texts, search, matched))) return false
  for (const keys of rules.excluded) if (yield* firstKeyIn(keys, texts, how, search)) return false
  return entry.constant || (yield* secondariesAllow(entry, how, texts, search, matched))
}

function* secondariesAllow(
  entry: LoreEntry,
  how: KeyRules,
  texts: readonly ScannedText[],
  search: KeySearch,
  matched: string[],
): Steps<boolean> {
  const { secondaryKeys, logic } = entry
  if (secondaryKeys.length === 0) return true
  if (logic === 'any') return yield* found(how, secondaryKeys, texts, search, matched)
  if (logic === 'not any') return (yield* firstKeyIn(secondaryKeys, texts, how, search)) === undefined
  for (const key of secondaryKeys) {
    if (!(yield* firstKeyIn([key], texts, how, search))) return logic !== 'all'
  }
  return logic === 'all'
}

/** Whether one of the keys occurs. The first key that occurs is added to `matched`. */
function* found(
  how: KeyRules,
  keys: readonly LoreKey[],
  texts: readonly ScannedText[],
  search: KeySearch,
  matched: string[],
): Steps<boolean> {
  const key = yield* firstKeyIn(keys, texts, how, search)
  if (key) matched.push(key.written)
  return key !== undefined
}
