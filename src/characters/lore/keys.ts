import { RE2JS } from 're2js'
import { withoutControls } from '../../text.ts'
import { hasMacro } from '../macros/macros.ts'
import { type LoreKey, marksOf } from './haystack.ts'

/** Characters of a key, and of a pattern. */
export const longestKey = 1000
/** Regular expressions of a card. */
const mostPatterns = 500

const slashForm = /^\/([\s\S]+)\/([a-z]*)$/
const knownFlags = /^[imsugy]*$/

/** What a card's regular expressions come to. */
export interface PatternCount {
  compiled: number
  readonly refused: string[]
}

/** Whether a key is written as `/pattern/flags`. */
export function isSlashForm(key: string): boolean {
  const flags = slashForm.exec(key)?.[2]
  return flags !== undefined && knownFlags.test(flags)
}

/** Makes a key ready; blank ones match nothing and are none. @param allowsPatterns whether `/…/` is a pattern in this entry */
export function readKey(raw: string, allowsPatterns: boolean, patterns: PatternCount): LoreKey | undefined {
  const written = withoutControls(raw).trim()
  if (written === '' || written.length > longestKey) return undefined
  if (allowsPatterns && isSlashForm(written)) return { written, pattern: compile(written, patterns) }
  return { ...plainKey(written), hasMacro: hasMacro(written) }
}

/** A key that is looked for as it stands. */
export function plainKey(text: string): LoreKey {
  const lower = text.toLowerCase()
  return { written: text, text, lower, marks: marksOf(lower) }
}

/** Compiles a pattern with an engine whose time grows with the text's length only; null for what that refuses. */
function compile(written: string, patterns: PatternCount): RE2JS | null {
  const [, pattern = '', flags = ''] = slashForm.exec(written) ?? []
  const bits =
    (flags.includes('i') ? RE2JS.CASE_INSENSITIVE : 0) |
    (flags.includes('m') ? RE2JS.MULTILINE : 0) |
    (flags.includes('s') ? RE2JS.DOTALL : 0)
  if (patterns.compiled + patterns.refused.length < mostPatterns) {
    try {
      const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern), bits)
      if (compiled.programSize() <= largestProgram) {
        patterns.compiled += 1
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
const largestProgram = 2000
