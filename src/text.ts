import { invalidField } from './errors.ts'
import type { Steps } from './work.ts'

/** What a name, or another short text, must be like; the sentences about it say what to do in the words of their place. */
export interface NameRule {
  /** Code points after trimming. */
  readonly longest: number
  /** What to do about a blank one. */
  readonly ifBlank: string
  /** What its author does with it: sends it to us, say, or writes it into a card. */
  readonly verb: 'give' | 'send' | 'write'
  /** What may not be in it, and the end of the sentence that says so. */
  readonly refused: { readonly pattern: RegExp; readonly problem: string }
}

/** What most names must be without. */
export const controlCharacters: NameRule['refused'] = {
  pattern: /\p{Cc}/u,
  problem: 'has control characters; leave them out',
}

/** What is wrong with a name, as the end of a sentence; undefined where nothing is. Spaces around it do not count. */
export function nameProblem(name: string, { longest, ifBlank, verb, refused }: NameRule): string | undefined {
  const trimmed = name.trim()
  if (trimmed === '') return `is blank; ${ifBlank}`
  if (!name.isWellFormed()) return `has half of a surrogate pair; ${verb} whole characters`
  if (refused.pattern.test(name)) return refused.problem
  // A code point has one or two UTF-16 units: most texts need no count.
  const isTooLong = trimmed.length > 2 * longest || (trimmed.length > longest && [...trimmed].length > longest)
  return isTooLong ? `is longer than ${longest} characters; shorten it` : undefined
}

/**
 * Refuses half of a character where a text goes into a reply header, which cannot carry it.
 * @throws ApiError 400 that names the field
 */
export function checkWellFormed(param: string, text: string): void {
  if (!text.isWellFormed()) throw invalidField(param, 'has half of a surrogate pair. Send whole characters')
}

/** A number with its noun: `1 plant`, `2 plants`. */
export function counted(count: number, noun: string): string {
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is for
const control = /[\0-\x08\x0b-\x1f\x7f]/g

/** A text without carriage returns and other control characters; tabs and line feeds stay, and half a character is U+FFFD. */
export function withoutControls(text: string): string {
  return text.replace(control, '').toWellFormed()
}

/** Characters that are looked through for control characters in one step. */
const longestCleaned = 64 * 1024

/** Does what `withoutControls` does, in steps: a card's text may have millions of them. */
export function* withoutControlsInSteps(text: string): Steps<string> {
  if (text.length <= longestCleaned) return withoutControls(text)
  const pieces: string[] = []
  let isChanged = false
  for (let start = 0; start < text.length; ) {
    // Never inside a character.
    const isCut = /[\uD800-\uDBFF]/.test(text.charAt(start + longestCleaned - 1))
    const end = start + longestCleaned + (isCut ? 1 : 0)
    const before = text.slice(start, end)
    const piece = withoutControls(before)
    isChanged ||= piece !== before
    pieces.push(piece)
    yield (longestCleaned >> 4) + (end - start - piece.length) * 2
    start = end
  }
  return isChanged ? pieces.join('') : text
}

/** Pieces of a growing text that are put together to one. */
const piecesTogether = 256

/**
 * A text that grows by many small pieces, such as a streamed answer. With `+=` each piece would take some 60 bytes of memory for as
 * long as the text is kept, however short it is: V8 keeps the pieces, and how they were joined.
 */
export class GrowingText {
  readonly #blocks: string[] = []
  #pieces: string[] = []

  /** Adds a piece to the end. */
  add(piece: string): void {
    if (this.#pieces.push(piece) < piecesTogether) return
    this.#blocks.push(this.#pieces.join(''))
    this.#pieces = []
  }

  /** All of it. */
  toString(): string {
    return this.#blocks.join('') + this.#pieces.join('')
  }
}

/** Values that are looked at in one step, and what each of them costs beside its characters. */
const valuesOfStep = 200
const unitsOfValue = 10

/** Puts U+FFFD in the place of each half of a surrogate pair, in all texts and names of a JSON value, where they stand. */
export function* replaceLoneSurrogates(json: object): Steps<void> {
  const left: object[] = [json]
  let values = 0
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    for (const [name, value] of Object.entries(next)) {
      values += 1
      if (typeof value === 'object' && value !== null) left.push(value)
      const isWhole = name.isWellFormed() && (typeof value !== 'string' || value.isWellFormed())
      if (!isWhole) mend(next, name, value)
      if (values % valuesOfStep === 0) yield valuesOfStep * unitsOfValue
    }
  }
}

function mend(object: object, name: string, value: unknown): void {
  if (!name.isWellFormed()) Reflect.deleteProperty(object, name)
  Object.defineProperty(object, name.toWellFormed(), {
    value: typeof value === 'string' ? value.toWellFormed() : value,
    ...{ writable: true, enumerable: true, configurable: true },
  })
}

/** Of some names the one that a mistyped word may have meant, in whatever case; undefined where none is like it. */
export function nearest(word: string, names: readonly string[]): string | undefined {
  const written = word.toLowerCase()
  const mostEdits = Math.max(1, Math.floor(written.length / 3))
  const [best] = names
    .map((name) => ({ name, edits: edits(written, name.toLowerCase()) }))
    .filter(({ edits }) => edits <= mostEdits)
    .sort((one, other) => one.edits - other.edits)
  return best?.name
}

/** How many characters must be put in, left out, replaced, or swapped with the next, to make one text of another. */
function edits(from: string, to: string): number {
  if (Math.abs(from.length - to.length) > Math.min(from.length, to.length)) return Number.POSITIVE_INFINITY
  let [beforeLast, last]: [readonly number[], readonly number[]] = [[], [...`${to} `].map((_, column) => column)]
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const same = from[row - 1] === to[column - 1]
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      current[column] = Math.min(
        editsAt(last, column) + 1,
        editsAt(current, column - 1) + 1,
        editsAt(last, column - 1) + (same ? 0 : 1),
        swapped ? editsAt(beforeLast, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    beforeLast = last
    last = current
  }
  return editsAt(last, to.length)
}

/** A cell of the table of edits; there is no way by one that is outside. */
function editsAt(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY
}
