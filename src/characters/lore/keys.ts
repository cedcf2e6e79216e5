import { RE2JS } from 're2js'
import { lowerCaseOf, withoutControls } from '../../text.ts'
import { spend } from '../../work/fuel.ts'
import { hasMacro } from '../macros/macros.ts'
import { LorePattern } from './pattern.ts'
import type { LoreKey } from './scanned-text.ts'
import { trigramsOf } from './trigram-filter.ts'

/** The most characters of a key, whether it is a text or a pattern. */
export const maxKeyLength = 1000
/** The most keys of one list that are read. */
export const maxKeys = 64
/** A key with more characters is too long, even if most of them are white space or control characters. */
const maxWrittenLength = 10 * maxKeyLength
/** The most regular expressions of one card, and of all lorebooks of one request together. */
const maxPatterns = 500

/** A key whose only macros are names: `{{char}}`, `{{user}}`, `<char>`, `<bot>` and `<user>`. */
const namesOnly = /^(?:[^{}<]|\{\{(?:char|user)\}\}|<(?:char|bot|user)>)*$/i

const knownFlags = /^[imsugy]*$/

/** The totals of the regular expressions of a card, or of a request's lorebooks. */
export interface PatternCount {
  compiled: number
  /** The number of instructions of all compiled patterns. */
  steps: number
  readonly refused: string[]
}

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
  if (slashed) {
    const pattern = compile(slashed, patterns)
    if (!pattern) patterns.refused.push(written)
    return { written, pattern }
  }
  if (!hasMacro(written)) return { ...plainKey(written), hasMacro: false }
  return { ...plainKey(written), hasMacro: true, hasNamesOnly: namesOnly.test(written) }
}

/** A key that is searched for literally. */
export function plainKey(text: string): LoreKey {
  const lower = lowerCaseOf(text)
  return { written: text, text, lower, trigrams: trigramsOf(lower) }
}

/** Compiles a pattern with RE2JS, which searches in linear time; null if the pattern is refused. */
function compile(
  slashed: { readonly pattern: string; readonly flags: string },
  patterns: PatternCount,
): LorePattern | null {
  const { pattern, flags } = slashed
  // The remaining patterns are not even read.
  if (patterns.compiled + patterns.refused.length >= maxPatterns) return null
  spend(unitsOfInstruction * pattern.length)
  const size = unfoldedSize(pattern)
  const classes = unitsOfClasses(pattern, flags)
  if (size > 2 * maxProgramSize || classes > maxUnitsOfClasses) return null
  spend(unitsOfInstruction * size + classes)
  const bits =
    (flags.includes('i') ? RE2JS.CASE_INSENSITIVE : 0) |
    (flags.includes('m') ? RE2JS.MULTILINE : 0) |
    (flags.includes('s') ? RE2JS.DOTALL : 0)
  try {
    const units = unitsOfInstruction * (pattern.length + size) + classes
    const compiled = new LorePattern(() => RE2JS.compile(RE2JS.translateRegExp(pattern), bits), units)
    if (compiled.size > maxProgramSize || patterns.steps + compiled.size > maxTotalProgramSize) return null
    patterns.compiled += 1
    patterns.steps += compiled.size
    return compiled
  } catch {
    return null
  }
}

/** The most instructions of a compiled pattern. Repetitions are unfolded: `(a{1,100}){1,10}` has thousands of instructions. */
const maxProgramSize = 2000
/** The most instructions of all patterns of a card, or of a request's lorebooks: some 20 MB of memory. */
const maxTotalProgramSize = 100_000
/** Units of work to compile one instruction. */
const unitsOfInstruction = 100
/** Units of work to compile a named class such as `\pL`, and to fold the case of one character in a range. */
const unitsOfNamedClass = 20_000
const unitsOfFoldedLetter = 3
/** The last code point that has both an upper and a lower case. */
const lastFolded = 0x1e943
/** The most units of work to compile the classes of a pattern: some 10 ms, or 50 named classes. */
const maxUnitsOfClasses = 1_000_000

const namedClass = /\\p/gi
const end = String.raw`(\\x[\da-f]{2}|\\u[\da-f]{4}|\\[xu]\{[\da-f]*\}|\\?[\s\S])`
const range = new RegExp(`${end}-${end}`, 'giu')
const byNumber = /^\\[xu]\{?([\da-f]+)/i

/** Units of work to compile the classes of a pattern: `/[k-\u8c48]/i` takes a millisecond. */
function unitsOfClasses(pattern: string, flags: string): number {
  let units = [...pattern.matchAll(namedClass)].length * unitsOfNamedClass
  if (!flags.includes('i') && !/\(\?[a-z]*i/i.test(pattern)) return units
  for (const [, first = '', last = ''] of pattern.matchAll(range)) {
    const letters = Math.min(letterOf(last) ?? lastFolded, lastFolded) - (letterOf(first) ?? 0)
    units += Math.max(0, letters) * unitsOfFoldedLetter
  }
  return units
}

/** The code point at an end of a range; undefined for an escape that is not a number, such as `\d`. */
function letterOf(written: string): number | undefined {
  const digits = byNumber.exec(written)?.[1]
  if (digits !== undefined) return Number.parseInt(digits, 16)
  return /^\\./.test(written) ? undefined : written.codePointAt(0)
}

/** A part of a pattern. A class without an end extends to the end of the pattern, so that the search takes linear time. */
const token = /\\[\s\S]|\[\^?\]?(?:\\[\s\S]|[^\]\\])*(?:\]|\\?$)|\{(\d+)(?:,(\d*))?\}|[\s\S]/g

/**
 * Estimates the number of instructions of a pattern with its repetitions unfolded, before the pattern is compiled. The time for
 * compiling grows with this number.
 */
function unfoldedSize(pattern: string): number {
  const open: number[] = []
  let size = 0
  let last = 0
  for (const [text, least, most] of pattern.matchAll(token)) {
    if (text === '(') {
      open.push(size)
      size = 0
      last = 0
    } else if (text === ')') {
      last = size + 2
      size = (open.pop() ?? 0) + last
    } else if (least !== undefined) {
      size += last * Math.max(0, Math.max(Number(least), Number(most ?? 0)) - 1)
      last *= Math.max(1, Number(least), Number(most ?? 0))
    } else {
      last = 1
      size += 1
    }
  }
  return open.reduce((sum, outer) => sum + outer, size)
}
