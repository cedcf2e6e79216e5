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
export function otherKeysAllow(
  entry: LoreEntry,
  rules: DecoratedRules,
  texts: readonly ScannedText[],
  search: KeySearch,
  matched: string[],
): boolean {
  const how = keyRulesOf(entry, rules)
  for (const keys of rules.additional) if (!found(how, keys, texts, search, matched)) return false
  for (const keys of rules.excluded) if (firstKeyIn(keys, texts, how, search)) return false
  return entry.constant || secondariesAllow(entry, how, texts, search, matched)
}

function secondariesAllow(
  entry: LoreEntry,
  how: KeyRules,
  texts: readonly ScannedText[],
  search: KeySearch,
  matched: string[],
): boolean {
  const { secondaryKeys, logic } = entry
  if (secondaryKeys.length === 0) return true
  if (logic === 'any') return found(how, secondaryKeys, texts, search, matched)
  if (logic === 'not any') return firstKeyIn(secondaryKeys, texts, how, search) === undefined
  for (const key of secondaryKeys) {
    if (!firstKeyIn([key], texts, how, search)) return logic !== 'all'
  }
  return logic === 'all'
}

/** Whether one of the keys occurs. The first key that occurs is added to `matched`. */
function found(
  how: KeyRules,
  keys: readonly LoreKey[],
  texts: readonly ScannedText[],
  search: KeySearch,
  matched: string[],
): boolean {
  const key = firstKeyIn(keys, texts, how, search)
  if (key) matched.push(key.written)
  return key !== undefined
}
