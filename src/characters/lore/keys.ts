import { lowerCaseOf, withoutControls } from '../../text.ts'
import { hasMacro } from '../macros/macros.ts'
import { compilePattern, type LorePattern, type PatternCount } from './pattern.ts'

/** A key of a lorebook entry, prepared for the search. */
export interface LoreKey {
  /** The key as it is written in the lorebook, trimmed. */
  readonly written: string
  /** The text of a key that is searched for literally, also in lower case (`lowerCaseOf`). None for a regular expression. */
  readonly text: string | undefined
  readonly lower: string
  /** Hashes of trigrams that every text with the key contains (`trigramsOf`). */
  readonly trigrams: readonly number[]
  /** Whether the key has macros, which are expanded before the search, and whether all of these macros are names. */
  readonly hasMacro: boolean
  readonly hasNamesOnly: boolean
  /** A regular expression; null if it is refused, so that it never matches. Undefined for a key that is searched for literally. */
  readonly pattern: LorePattern | null | undefined
}

/** The most characters of a key, whether it is a text or a pattern. */
export const maxKeyLength = 1000
/** The most keys of one list that are read. */
export const maxKeys = 64
/** A key with more characters is too long, even if most of them are white space or control characters. */
const maxWrittenLength = 10 * maxKeyLength

/** A key whose only macros are names: `{{char}}`, `{{user}}`, `<char>`, `<bot>` and `<user>`. */
const namesOnly = /^(?:[^{}<]|\{\{(?:char|user)\}\}|<(?:char|bot|user)>)*$/i

const knownFlags = /^[imsugy]*$/

/** Whether a key is written as `/pattern/flags`, with no flags other than `imsugy`, and with any white space around it. */
export function isSlashForm(key: string): boolean {
  return key.length <= maxWrittenLength && patternIn(key.trim()) !== undefined
}

/** The pattern and the flags of a trimmed key; undefined for a key that is searched for literally. */
function patternIn(key: string): { readonly pattern: string; readonly flags: string } | undefined {
  const end = key.lastIndexOf('/')
  const flags = key.slice(end + 1)
  return end > 1 && key.startsWith('/') && knownFlags.test(flags) ? { pattern: key.slice(1, end), flags } : undefined
}

/** Parses a key; undefined if it is blank or too long. @param allowsPatterns whether `/…/` is a pattern in this entry */
export function readKey(raw: string, allowsPatterns: boolean, patterns: PatternCount): LoreKey | undefined {
  if (raw.length > maxWrittenLength) return undefined
  const written = withoutControls(raw).trim()
  if (written === '' || written.length > maxKeyLength) return undefined
  const slashed = allowsPatterns ? patternIn(written) : undefined
  if (!slashed) {
    const hasMacros = hasMacro(written)
    return { ...plainKey(written), hasMacro: hasMacros, hasNamesOnly: hasMacros && namesOnly.test(written) }
  }
  const pattern = compilePattern(slashed, patterns)
  if (!pattern) patterns.refused.push(written)
  return { ...plainKey(''), text: undefined, written, pattern }
}

/** A key that is searched for literally, without macros. */
export function plainKey(text: string): LoreKey {
  const lower = lowerCaseOf(text)
  const trigrams = trigramsOf(lower)
  return { written: text, text, lower, trigrams, hasMacro: false, hasNamesOnly: false, pattern: undefined }
}

/** Hashes of up to three trigrams of a key in lower case. Empty for a key with fewer than three characters. */
function trigramsOf(lower: string): readonly number[] {
  const last = lower.length - 3
  if (last < 0) return []
  // The last trigram comes first, because keys of one book often begin alike (`place 7`, `place 8`).
  return [...new Set([last, 0, (last + 1) >> 1])].map((index) => {
    let hash = 0
    for (let at = index; at < index + 3; at++) hash = ((hash << trigramShift) ^ lower.charCodeAt(at)) & trigramMask
    return hash
  })
}

/**
 * The hash of a trigram is the hash before it, shifted, with the third character. The shift is by five bits, as letters of one
 * alphabet differ in the lowest five, and the mask leaves nothing of older characters.
 */
export const trigramShift = 5
export const trigramMask = 2 ** (3 * trigramShift) - 1
