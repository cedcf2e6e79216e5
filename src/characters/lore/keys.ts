import { RE2JS } from 're2js'
import { withoutControls } from '../../text.ts'
import { hasMacro } from '../macros/macros.ts'
import { type LoreKey, marksOf } from './haystack.ts'
import { LorePattern } from './pattern.ts'

/** Characters of a key, and of a pattern. */
export const maxKeyLength = 1000
/** Regular expressions of a card. */
const maxPatterns = 500

/** A key whose macros are the two names and nothing else. */
const namesOnly = /^(?:[^{}<]|\{\{(?:char|user)\}\}|<(?:char|bot|user)>)*$/i

const slashForm = /^\/([\s\S]+)\/([a-z]*)$/
const knownFlags = /^[imsugy]*$/

/** What a card's regular expressions come to, and the units of work that reading keys has taken. */
export interface PatternCount {
  compiled: number
  /** Steps of the programs of them all. */
  steps: number
  readonly refused: string[]
  units: number
}

/** Whether a key is written as `/pattern/flags`. */
export function isSlashForm(key: string): boolean {
  const flags = slashForm.exec(key)?.[2]
  return flags !== undefined && knownFlags.test(flags)
}

/** Makes a key ready; blank ones match nothing and are none. @param allowsPatterns whether `/…/` is a pattern in this entry */
export function readKey(raw: string, allowsPatterns: boolean, patterns: PatternCount): LoreKey | undefined {
  const written = withoutControls(raw).trim()
  if (written === '' || written.length > maxKeyLength) return undefined
  if (allowsPatterns && isSlashForm(written)) return { written, pattern: compile(written, patterns) }
  if (!hasMacro(written)) return { ...plainKey(written), hasMacro: false }
  return { ...plainKey(written), hasMacro: true, hasNamesOnly: namesOnly.test(written) }
}

/** A key that is looked for as it stands. */
export function plainKey(text: string): LoreKey {
  const lower = text.toLowerCase()
  return { written: text, text, lower, marks: marksOf(lower) }
}

/** Compiles a pattern with an engine whose time grows with the text's length only; null for what that refuses. */
function compile(written: string, patterns: PatternCount): LorePattern | null {
  const [, pattern = '', flags = ''] = slashForm.exec(written) ?? []
  const bits =
    (flags.includes('i') ? RE2JS.CASE_INSENSITIVE : 0) |
    (flags.includes('m') ? RE2JS.MULTILINE : 0) |
    (flags.includes('s') ? RE2JS.DOTALL : 0)
  const size = unfoldedSize(pattern)
  const classes = unitsOfClasses(pattern, flags)
  const isSmall = size <= 2 * maxProgramSize && classes <= maxUnitsOfClasses
  if (isSmall && patterns.compiled + patterns.refused.length < maxPatterns) {
    const units = unitsOfInstruction * (pattern.length + size) + classes
    patterns.units += units
    try {
      const compiled = new LorePattern(() => RE2JS.compile(RE2JS.translateRegExp(pattern), bits), units)
      if (compiled.size <= maxProgramSize && patterns.steps + compiled.size <= maxTotalProgramSize) {
        patterns.compiled += 1
        patterns.steps += compiled.size
        return compiled
      }
    } catch {
      // What it cannot compile matches nothing, and is told of at registration.
    }
  }
  patterns.refused.push(written)
  return null
}

/** Steps of a compiled pattern: `(a{1,100}){1,10}` unfolds to thousands. */
const maxProgramSize = 2000
/** Steps of all patterns of a card: some 20 MB of memory. */
const maxTotalProgramSize = 100_000
/** Units of work of compiling one of them. */
const unitsOfInstruction = 100
/** Units of work of a class by name such as `\pL`, and of a letter in a range whose other cases are looked for one by one. */
const unitsOfNamedClass = 20_000
const unitsOfFoldedLetter = 3
/** The last letter that has other cases. */
const lastFolded = 0x1e943
/** Units of work of the classes of a pattern: some 10 ms, or fifty classes by name. */
const maxUnitsOfClasses = 1_000_000

const namedClass = /\\p/gi
const end = String.raw`(\\x[\da-f]{2}|\\u[\da-f]{4}|\\[xu]\{[\da-f]*\}|\\?[\s\S])`
const range = new RegExp(`${end}-${end}`, 'giu')
const byNumber = /^\\[xu]\{?([\da-f]+)/i

/** What compiling the classes of a pattern takes: `/[k-\u8c48]/i` is a millisecond. */
function unitsOfClasses(pattern: string, flags: string): number {
  let units = [...pattern.matchAll(namedClass)].length * unitsOfNamedClass
  if (!flags.includes('i') && !/\(\?[a-z]*i/i.test(pattern)) return units
  for (const [, first = '', last = ''] of pattern.matchAll(range)) {
    const letters = Math.min(letterOf(last) ?? lastFolded, lastFolded) - (letterOf(first) ?? 0)
    units += Math.max(0, letters) * unitsOfFoldedLetter
  }
  return units
}

/** The number of the letter that ends a range; undefined for another escape. */
function letterOf(written: string): number | undefined {
  const digits = byNumber.exec(written)?.[1]
  if (digits !== undefined) return Number.parseInt(digits, 16)
  return /^\\./.test(written) ? undefined : written.codePointAt(0)
}

const token = /\\[\s\S]|\[\^?\]?(?:\\[\s\S]|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/g

/** How many steps a pattern has about, its repetitions written out: told before it is compiled, which takes that time. */
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
