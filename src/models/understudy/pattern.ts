import { valueIn } from '../../fields.ts'
import { spend } from '../../work/fuel.ts'

/**
 * Makes a text that matches a regular expression. The code reads the expression and does not run it, because a caller's
 * expression could run forever. Lookarounds, back references and the like are not supported.
 */

/** The pattern has unsupported syntax, or its text would be too long. */
class UnknownSyntaxError extends Error {}

const maxTextLength = 10_000
const maxPatternLength = 10_000
/** Units of work for each atom, for each letter that is read, and for each test of a letter. */
const unitsOfAtom = 40
const unitsOfReading = 6
const unitsOfTrial = 6
const maxDepth = 100
const printable = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index))
const classes: Readonly<Record<string, (letter: string) => boolean>> = {
  d: (letter) => /[0-9]/.test(letter),
  w: (letter) => /\w/.test(letter),
  s: (letter) => letter === ' ',
}
/** The letters to choose from, the plainest first. */
const byPlainness = [
  ...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789',
  ...printable.filter((letter) => !/\w/.test(letter)),
  '_',
]

/**
 * Makes a text that matches a pattern, with at least `minLength` characters if the pattern's repeats allow it. Undefined for a
 * pattern that is too long or not supported. If the pattern's sets and classes have several letters, each variant chooses
 * different letters.
 */
export function textForPattern(pattern: string, minLength: number, variant: number): string | undefined {
  if (pattern.length > maxPatternLength) return undefined
  let extra = 0
  let text = new PatternWalker(pattern, extra, variant).text()
  for (let attempt = 0; attempt < 3 && text !== undefined; attempt += 1) {
    const missing = minLength - lengthOf(text)
    if (missing <= 0) break
    extra += missing
    text = new PatternWalker(pattern, extra, variant).text()
  }
  return text
}

class PatternWalker {
  readonly #letters: readonly string[]
  #position = 0
  /** Repeats that may still be added, if the pattern allows them. */
  #extra: number
  #variant: number
  /**
   * Letters from the pattern's character sets (`[…]`). They are tried after `byPlainness`, because `byPlainness` has only ASCII
   * characters.
   */
  readonly #lettersOfSets = new Set<string>()
  #depth = 0
  /** Whether an alternative is being skipped. */
  #isSkipping = false

  constructor(pattern: string, extra: number, variant: number) {
    spend(pattern.length * unitsOfReading)
    this.#letters = [...pattern]
    this.#extra = extra
    this.#variant = variant
  }

  /** The text; undefined if the pattern is not supported. */
  text(): string | undefined {
    let text: string | undefined
    try {
      text = this.#alternatives()
    } catch (error) {
      if (!(error instanceof UnknownSyntaxError)) throw error
    }
    return this.#position < this.#letters.length ? undefined : text
  }

  /** Returns the first alternative, and skips the others. */
  #alternatives(): string {
    const first = this.#sequence()
    while (this.#take('|')) this.#skipAlternative()
    return first
  }

  #sequence(): string {
    let text = ''
    while (this.#position < this.#letters.length && !'|)'.includes(this.#peek())) {
      const start = this.#position
      const atom = this.#atom()
      const end = this.#position
      const [minRepeats, maxRepeats] = this.#repeats()
      const after = this.#position
      const added = Math.min(this.#extra, maxRepeats - minRepeats)
      if (atom !== '') this.#extra -= added
      const times = atom === '' || this.#isSkipping ? Math.min(1, minRepeats) : minRepeats + added
      for (let count = 0; count < times; count += 1) {
        if (text.length > maxTextLength) throw new UnknownSyntaxError()
        this.#position = start
        text += count === 0 ? atom : this.#atom()
      }
      this.#position = Math.max(after, end)
    }
    return text
  }

  #atom(): string {
    spend(unitsOfAtom)
    const letter = this.#next()
    switch (letter) {
      case '(':
        return this.#group()
      case '[':
        return this.#set()
      case '\\':
        return this.#escape()
      case '.':
        return this.#choose(() => true)
      case '^':
      case '$':
        return ''
      default:
        if ('*+?{'.includes(letter)) throw new UnknownSyntaxError()
        return letter
    }
  }

  #group(): string {
    if (this.#take('?')) {
      const named = this.#take('<')
      if (named && '=!'.includes(this.#peek())) throw new UnknownSyntaxError()
      if (named) while (this.#next() !== '>') {}
      else if (!this.#take(':')) throw new UnknownSyntaxError()
    }
    this.#depth += 1
    if (this.#depth > maxDepth) throw new UnknownSyntaxError()
    const text = this.#alternatives()
    this.#depth -= 1
    if (!this.#take(')')) throw new UnknownSyntaxError()
    return text
  }

  #set(): string {
    const isNegative = this.#take('^')
    const tests: ((letter: string) => boolean)[] = []
    while (!this.#take(']')) {
      const from = this.#member()
      if (typeof from === 'function' || this.#peek() !== '-' || this.#letters[this.#position + 1] === ']') {
        tests.push(typeof from === 'function' ? from : (letter) => letter === from)
        if (typeof from === 'string') this.#lettersOfSets.add(from)
        continue
      }
      this.#next()
      const to = this.#member()
      if (typeof to === 'function') throw new UnknownSyntaxError()
      tests.push((letter) => letter >= from && letter <= to)
      this.#lettersOfSets.add(from)
    }
    return this.#choose((letter) => tests.some((test) => test(letter)) !== isNegative, tests.length)
  }

  #member(): string | ((letter: string) => boolean) {
    const letter = this.#next()
    if (letter !== '\\') return letter
    const escaped = this.#next()
    return classOf(escaped) ?? this.#literal(escaped)
  }

  #escape(): string {
    const escaped = this.#next()
    if (escaped === 'b') return ''
    const test = classOf(escaped)
    return test ? this.#choose(test) : this.#literal(escaped)
  }

  #literal(escaped: string): string {
    const control = valueIn({ n: '\n', r: '\r', t: '\t', f: '\f', v: '\v' }, escaped)
    if (control !== undefined) return control
    if (/[A-Za-z0-9]/.test(escaped)) throw new UnknownSyntaxError()
    return escaped
  }

  /** Reads how often the atom before this position must and may be repeated. */
  #repeats(): readonly [min: number, max: number] {
    const repeats = this.#quantifier()
    if (repeats) this.#take('?')
    return repeats ?? [1, 1]
  }

  #quantifier(): readonly [number, number] | undefined {
    if (this.#take('*')) return [0, maxTextLength]
    if (this.#take('+')) return [1, maxTextLength]
    if (this.#take('?')) return [0, 1]
    const braces = /^\{(\d+)(,?)(\d*)\}/.exec(this.#letters.slice(this.#position, this.#position + 20).join(''))
    if (!braces) return undefined
    this.#position += braces[0].length
    const min = Number(braces[1])
    if (min > maxTextLength) throw new UnknownSyntaxError()
    if (braces[2] === '') return [min, min]
    return [min, braces[3] === '' ? maxTextLength : Number(braces[3])]
  }

  /** Chooses a letter that passes a test. @param tests the number of comparisons in `test` */
  #choose(test: (letter: string) => boolean, tests = 1): string {
    const fitting: string[] = []
    for (const letters of [byPlainness, this.#lettersOfSets]) {
      for (const letter of letters) {
        spend(tests * unitsOfTrial)
        if (!test(letter)) continue
        if (this.#variant === 0) return letter
        fitting.push(letter)
      }
    }
    const letter = fitting[this.#variant % Math.max(1, fitting.length)]
    if (letter === undefined) throw new UnknownSyntaxError()
    this.#variant = Math.floor(this.#variant / fitting.length)
    return letter
  }

  /** Skips an alternative. A skipped alternative is not in the text, so it must not use up extra repeats or variants. */
  #skipAlternative(): void {
    const [extra, variant, wasSkipping] = [this.#extra, this.#variant, this.#isSkipping]
    this.#isSkipping = true
    this.#sequence()
    this.#extra = extra
    this.#variant = variant
    this.#isSkipping = wasSkipping
  }

  #peek(): string {
    return this.#letters[this.#position] ?? ''
  }

  #next(): string {
    const letter = this.#letters[this.#position]
    if (letter === undefined) throw new UnknownSyntaxError()
    this.#position += 1
    spend(unitsOfReading)
    return letter
  }

  #take(letter: string): boolean {
    if (this.#peek() !== letter) return false
    this.#position += 1
    return true
  }
}

function lengthOf(text: string): number {
  return [...text].length
}

function classOf(escaped: string): ((letter: string) => boolean) | undefined {
  const test = valueIn(classes, escaped.toLowerCase())
  if (test === undefined) return undefined
  return escaped === escaped.toLowerCase() ? test : (letter) => !test(letter)
}
