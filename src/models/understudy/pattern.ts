import { spend } from '../../work/fuel.ts'

/**
 * Makes a text that matches a regular expression. The code reads the expression and does not run it, because a caller's
 * expression could run forever; only a single set such as `[a-z]` or `\d` runs, on single letters. Lookarounds, back references
 * and the like are not supported.
 */

/** The pattern has unsupported syntax, or its text would be too long. */
class UnsupportedPattern extends Error {}

const maxLength = 10_000
const maxGroups = 100
/** Units of work for each letter that is read or written, to compile a set, and for each letter that is tried in it. */
const unitsOfLetter = 30
const unitsOfSet = 1000
const unitsOfTrial = 10

/** An atom of a pattern: the start of a group, a set, an escape, or a letter that is no operator. */
const atoms = /\((?:\?:|\?<\w+>)?|\[(?:\\.|[^\]\\])*\]|\\(?:[pP]\{[\w=]+\}|[^\dkBcux])|[^|()[\]\\*+?{]|\]/suy
const quantifiers = /(?:[*+?]|\{(\d{1,9})(?:(,)(\d{0,9}))?\})\??/uy
/** The letters to choose from, the plainest first. */
const plainest = [
  ...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789',
  ...' !"#$%&\'()*+,-./:;<=>?@[\\]^`{|}~_\n\t\r\f\v',
]

/** The choices that are still open while a text is made: repeats that may be added, and the number of the variant. */
interface Choices {
  extra: number
  variant: number
}

/** Makes the text of a part of the pattern. */
type Part = (choices: Choices) => string

/**
 * Makes a text that matches a pattern, with at least `minLength` characters if the pattern's repeats allow it. Undefined for a
 * pattern that is too long or not supported. If the pattern's sets have several letters, each variant chooses different letters.
 */
export function textForPattern(pattern: string, minLength: number, variant: number): string | undefined {
  if (Math.max(pattern.length, minLength) > maxLength || pattern.split('(').length > maxGroups) return undefined
  try {
    const part = new PatternReader(pattern).whole()
    let text = part({ extra: 0, variant })
    let extra = 0
    for (let attempt = 0; attempt < 3 && [...text].length < minLength; attempt += 1) {
      extra += minLength - [...text].length
      text = part({ extra, variant })
    }
    return text
  } catch (error) {
    // A set may have a syntax error.
    if (error instanceof UnsupportedPattern || error instanceof SyntaxError) return undefined
    throw error
  }
}

class PatternReader {
  readonly #pattern: string
  #position = 0

  constructor(pattern: string) {
    this.#pattern = pattern
  }

  /** @throws UnsupportedPattern */
  whole(): Part {
    const part = this.#alternatives()
    if (this.#position < this.#pattern.length) throw new UnsupportedPattern()
    return part
  }

  /** The first of the alternatives. The others are read, and not used. */
  #alternatives(): Part {
    const first = this.#sequence()
    while (this.#take(/\|/y)) this.#sequence()
    return first
  }

  #sequence(): Part {
    const parts: Part[] = []
    for (let atom = this.#take(atoms); atom; atom = this.#take(atoms)) parts.push(this.#repeated(this.#part(atom[0])))
    return (choices) => parts.reduce((text, part) => lengthened(text, part(choices)), '')
  }

  #part(atom: string): Part {
    if (atom.startsWith('(')) {
      const group = this.#alternatives()
      if (!this.#take(/\)/y)) throw new UnsupportedPattern()
      return group
    }
    if (['^', '$', '\\b'].includes(atom)) return () => ''
    return oneOf(/^(?:[[\\]|\.$)/.test(atom) ? lettersIn(atom) : [atom])
  }

  #repeated(atom: Part): Part {
    const quantifier = this.#take(quantifiers)
    if (!quantifier) return atom
    const [sign, least, comma, most] = quantifier
    const min = Number(least ?? (sign.startsWith('+') ? 1 : 0))
    const max = least === undefined ? (sign.startsWith('?') ? 1 : maxLength) : comma ? Number(most || maxLength) : min
    if (min > maxLength) throw new UnsupportedPattern()
    return (choices) => {
      const added = Math.min(choices.extra, Math.max(0, max - min))
      choices.extra -= added
      let text = ''
      for (let count = 0; count < min + added; count += 1) text = lengthened(text, atom(choices))
      return text
    }
  }

  #take(form: RegExp): RegExpExecArray | null {
    form.lastIndex = this.#position
    const found = form.exec(this.#pattern)
    const letters = found?.[0].length ?? 0
    this.#position += letters
    spend((1 + letters) * unitsOfLetter)
    return found
  }
}

/** The letters that match a set or an escape: of the plainest letters, and of those that it names. */
function lettersIn(set: string): readonly string[] {
  const tried = [...new Set([...plainest, ...set])]
  spend(unitsOfSet + (set.length + tried.length) * unitsOfTrial)
  const pattern = new RegExp(`^${set}$`, 'u')
  const letters = tried.filter((letter) => pattern.test(letter))
  if (letters.length === 0) throw new UnsupportedPattern()
  return letters
}

/** Chooses one of the letters, the first for variant 0. */
function oneOf(letters: readonly string[]): Part {
  return (choices) => {
    const letter = letters[choices.variant % letters.length] ?? ''
    choices.variant = Math.floor(choices.variant / letters.length)
    return letter
  }
}

function lengthened(text: string, more: string): string {
  spend(unitsOfLetter)
  if (text.length + more.length > maxLength) throw new UnsupportedPattern()
  return text + more
}
