import { RE2JS } from 're2js'
import { spend } from '../../work/fuel.ts'

/** The most regular expressions of one card, and of all lorebooks of one request together. */
const maxPatterns = 500

/** The totals of the regular expressions of a card, or of a request's lorebooks. */
export interface PatternCount {
  compiled: number
  /** The number of instructions of all compiled patterns. */
  steps: number
  readonly refused: string[]
}

/**
 * The most bytes of a pattern's DFA states. RE2JS makes these states while it searches a text, and keeps them for the next text.
 * When this memory is full, it drops all states. By default it would keep up to 8 MB for each pattern.
 */
const maxStateBytes = 64 * 1024
/** The approximate bytes of memory for one instruction. */
const bytesOfInstruction = 200

/**
 * A regular expression of a lorebook. The constructor compiles the pattern to check it and to learn its size, but does not keep
 * the program, since most cards are read only to be stored or shown. The first search compiles the pattern again.
 */
export class LorePattern {
  readonly #compile: () => RE2JS
  readonly #units: number
  #compiled: RE2JS | undefined
  /** The number of instructions of the compiled program. */
  readonly size: number

  /**
   * @param units the cost of `compile`, in units of work
   * @throws the errors of `compile`
   */
  constructor(compile: () => RE2JS, units = 0) {
    this.#compile = compile
    this.#units = units
    this.size = compile().programSize()
  }

  /** The approximate maximum of the memory between searches, in bytes. */
  get bytes(): number {
    return maxStateBytes + bytesOfInstruction * this.size
  }

  /** Whether the pattern matches anywhere in a text. Time is linear in the text, but some patterns take a microsecond a character. */
  search(text: string): boolean {
    this.#compiled ??= this.#compiledNow()
    spend(text.length * (1 + (this.size >> 6)))
    return this.#compiled.test(text)
  }

  #compiledNow(): RE2JS {
    spend(this.#units)
    const compiled = this.#compile()
    const { dfa } = compiled.re2()
    dfa.stateBudget = maxStateBytes
    dfa.memBudget = maxStateBytes
    // An upper bound of the work to find the DFA's classes of characters.
    spend(dfa.numClasses * this.size)
    return compiled
  }
}

/** Compiles a pattern with RE2JS, which searches in linear time; null if the pattern is refused. */
export function compilePattern(
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
