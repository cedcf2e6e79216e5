import { invalidField } from './errors.ts'

/** The rule for a name or another short text, with the words of its error messages. */
export interface NameRule {
  /** The most code points after trimming. */
  readonly longest: number
  /** The advice for a blank name. */
  readonly ifBlank: string
  /** The verb of the advice: an operator gives a name, a caller sends it, and an author writes it into a card. */
  readonly verb: 'give' | 'send' | 'write'
  /** Characters that are refused, and the end of the message about them. */
  readonly refused: { readonly pattern: RegExp; readonly problem: string }
}

/** The refused characters of most names. */
export const controlCharacters: NameRule['refused'] = {
  pattern: /\p{Cc}/u,
  problem: 'has control characters; leave them out',
}

/** The fault of a name, as the end of a sentence. Undefined for a valid name. Spaces around the name are ignored. */
export function nameProblem(name: string, { longest, ifBlank, verb, refused }: NameRule): string | undefined {
  const trimmed = name.trim()
  if (trimmed === '') return `is blank; ${ifBlank}`
  if (!name.isWellFormed()) return `has half of a surrogate pair; ${verb} whole characters`
  if (refused.pattern.test(name)) return refused.problem
  // A code point has one or two UTF-16 units, so the lengths of most texts decide without counting code points.
  const isTooLong = trimmed.length > 2 * longest || (trimmed.length > longest && [...trimmed].length > longest)
  return isTooLong ? `is longer than ${longest} characters; shorten it` : undefined
}

/**
 * Refuses lone surrogates in a text for a reply header, because a header cannot contain them.
 * @throws ApiError 400 that names the field
 */
export function checkWellFormed(param: string, text: string): void {
  if (!text.isWellFormed()) throw invalidField(param, 'has half of a surrogate pair. Send whole characters')
}

/** A number with its noun: `1 plant`, `2 plants`. */
export function counted(count: number, noun: string): string {
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern finds control characters
const control = /[\0-\x08\x0b-\x1f\x7f]/g

/** Removes carriage returns and other control characters, except tabs and line feeds. A lone surrogate becomes U+FFFD. */
export function withoutControls(text: string): string {
  // `replace` would make a tree of all pieces, which takes 30 bytes and much time for each removed character.
  const kept = text.search(control) === -1 ? text : text.split(control).join('')
  return kept.toWellFormed()
}

/**
 * A text in lower case. The Greek final sigma (ς) becomes the ordinary one (σ): `toLowerCase` writes ς at the end of a word, so a
 * search for this word would not find the same letters inside a longer word. The length may differ from the length of the text.
 */
export function lowerCaseOf(text: string): string {
  const lower = text.toLowerCase()
  return lower.includes('ς') ? lower.replaceAll('ς', 'σ') : lower
}

/** A copy of a text. A slice that is not copied keeps the whole original text in memory. */
export function copyOf(text: string): string {
  return Buffer.from(text).toString()
}

/** The beginning of a text: at most `maxLength` characters, and then `…` if the text is longer. */
export function beginningOf(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${copyOf(text.slice(0, maxLength))}…`
}

/** The number of pieces of a growing text that are joined into one block. */
const piecesPerBlock = 256

/**
 * A text that grows by many small pieces, such as a streamed answer. With `+=`, V8 keeps a tree of the pieces, and each piece
 * takes about 60 bytes of memory. So this class joins 256 pieces into one block.
 */
export class GrowingText {
  readonly #blocks: string[] = []
  #pieces: string[] = []

  /** Adds a piece to the end. */
  add(piece: string): void {
    if (this.#pieces.push(piece) < piecesPerBlock) return
    this.#blocks.push(this.#pieces.join(''))
    this.#pieces = []
  }

  /** The whole text. */
  toString(): string {
    return this.#blocks.join('') + this.#pieces.join('')
  }
}

/** Replaces each lone surrogate by U+FFFD, in place, in all strings and names of a JSON value. */
export function replaceLoneSurrogates(json: object): void {
  const left: object[] = [json]
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    for (const [name, value] of entriesOf(next)) {
      if (typeof value === 'object' && value !== null) left.push(value)
      const isWhole = `${name}`.isWellFormed() && (typeof value !== 'string' || value.isWellFormed())
      if (!isWhole) mend(next, `${name}`, value)
    }
  }
}

/**
 * The names or indices of an object's values, with the values. A list of the entries of a long array would be one long step.
 */
function entriesOf(object: object): Iterable<readonly [string | number, unknown]> {
  return Array.isArray(object) ? object.entries() : Object.entries(object)
}

function mend(object: object, name: string, value: unknown): void {
  if (!name.isWellFormed()) Reflect.deleteProperty(object, name)
  Object.defineProperty(object, name.toWellFormed(), {
    value: typeof value === 'string' ? value.toWellFormed() : value,
    ...{ writable: true, enumerable: true, configurable: true },
  })
}

/** The most characters of a mistyped word, and the most typing errors in it. They bound the work for hundreds of names. */
const maxMistyped = 50
const maxErrors = 3

/**
 * The name most similar to a mistyped word, ignoring case. Undefined if no name is similar, or the word is longer than 50
 * characters.
 */
export function nearest(word: string, names: readonly string[]): string | undefined {
  if (word.length > maxMistyped) return undefined
  const written = word.toLowerCase()
  const maxEdits = Math.min(maxErrors, Math.max(1, Math.floor(written.length / 3)))
  const [best] = names
    .map((name) => ({ name, edits: edits(written, name.toLowerCase(), maxEdits) }))
    .filter(({ edits }) => edits <= maxEdits)
    .sort((one, other) => one.edits - other.edits)
  return best?.name
}

/** A question for an error message, such as ` Did you mean "Fern"?` with a space before it; empty without a name. */
export function didYouMean(name: string | undefined): string {
  return name === undefined ? '' : ` Did you mean ${JSON.stringify(name)}?`
}

/**
 * The edit distance (insert, delete, replace, swap with the next) of two texts; infinite if it is above `max`. Only cells of the
 * table of distances that are at most `max` beside its diagonal are computed, because all other cells are above `max`.
 */
function edits(from: string, to: string, max: number): number {
  if (Math.abs(from.length - to.length) > max) return Number.POSITIVE_INFINITY
  let [beforeLast, last]: [readonly number[], readonly number[]] = [[], [...`${to} `].map((_, column) => column)]
  for (let row = 1; row <= from.length; row++) {
    const current = row <= max ? [row] : []
    for (let column = Math.max(1, row - max); column <= Math.min(to.length, row + max); column++) {
      const same = from[row - 1] === to[column - 1]
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      current[column] = Math.min(
        editsAt(last, column) + 1,
        editsAt(current, column - 1) + 1,
        editsAt(last, column - 1) + (same ? 0 : 1),
        swapped ? editsAt(beforeLast, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    if (!current.some((edits) => edits <= max)) return Number.POSITIVE_INFINITY
    beforeLast = last
    last = current
  }
  return editsAt(last, to.length)
}

/** A cell of the table of edit distances; infinite outside the table. */
function editsAt(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY
}
