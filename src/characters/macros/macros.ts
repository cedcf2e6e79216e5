import { ApiError } from '../../errors.ts'
import type { Steps } from '../../work.ts'
import { bracePairs, firstPairFrom, type Pair } from './braces.ts'
import { type Clock, clockAt, isClock } from './clock.ts'
import { mostDice, roll } from './dice.ts'
import { type MacroEnvironment, picker, reversed } from './values.ts'

/** How deep macros may nest; what lies deeper stays as it is written. */
const mostLevels = 32
/** Characters that one text may have once it is expanded. */
export const longestExpansion = 1024 ** 2
const longestUnknownName = 64
/** Macros that one prompt may have, nested ones included: some 30 ms of work; real cards have dozens. */
export const mostMacros = 3000

const angled = /<(char|bot|user)>/gi
const anyMacro = /\{\{|<(?:char|bot|user)>/i
/** What a macro begins with: its name, and one colon, two, or a blank. */
const opening = /\s*(?:(\/\/)|([a-z_][a-z0-9_]*)(?:\s*(::?)|(?=\s|\}\})))/iy
/** Macros that take something after a colon. */
const withArguments = new Set(['comment', 'hidden_key', 'reverse', 'random', 'pick'])

/** Tells whether expanding a text could change it. */
export function hasMacro(text: string): boolean {
  return anyMacro.test(text)
}

/** Characters that all texts of one prompt may have once they are expanded, those that are not sent too. */
export const mostExpanded = 32 * longestExpansion
/** Characters of text without braces that are read in one step. */
const longestLiteral = 64 * 1024
/** Units of work of one macro, and after which a step ends. */
const unitsOfMacro = 60
const unitsOfStep = 1000

/**
 * Puts their values in the place of macros, in one pass: what is put in is never read again, so that no name can
 * smuggle in a macro. Unknown macros stay as written. It takes time in proportion to the text.
 * @throws ApiError 400 `card_too_large` when the result gets longer than `longestExpansion`, or there are more than
 *   `mostMacros`, and when all texts of one counter get too long together
 */
export function* expandMacros(text: string, environment: MacroEnvironment): Steps<string> {
  if (!hasMacro(text)) return text
  const { counter = { macros: 0, characters: 0 } } = environment
  const pairs = yield* bracePairs(text, mostMacros - counter.macros + 1)
  counter.macros += pairs.length
  if (counter.macros > mostMacros) throw tooManyMacros()
  const expanded = yield* new Expansion(text, pairs, environment).whole()
  counter.characters += expanded.length
  if (counter.characters > mostExpanded) throw tooLarge()
  return expanded
}

/** One text being expanded. */
class Expansion {
  readonly #text: string
  readonly #environment: MacroEnvironment
  readonly #pairs: readonly Pair[]
  #pick: ReturnType<typeof picker> | undefined
  #clock: Clock | undefined
  /** Work since the last step. */
  #units = 0

  constructor(text: string, pairs: readonly Pair[], environment: MacroEnvironment) {
    this.#text = text
    this.#environment = environment
    this.#pairs = pairs
  }

  *whole(): Steps<string> {
    const expanded = yield* this.#range(0, this.#text.length, 0, false)
    yield this.#units
    return expanded
  }

  /** Counts work, and ends the step where it has been enough. */
  *#spend(units: number): Steps<void> {
    this.#units += units
    if (this.#units < unitsOfStep) return
    yield this.#units
    this.#units = 0
  }

  /** Expands what stands from one place to another. @param isArgument whether `\,` stands for a comma there */
  *#range(start: number, end: number, level: number, isArgument: boolean): Steps<string> {
    const pieces = new Pieces()
    let place = start
    for (let index = firstPairFrom(this.#pairs, start); ; ) {
      const pair = this.#pairs[index]
      if (!pair || pair.close >= end || level >= mostLevels) break
      yield* this.#addLiteral(pieces, place, pair.open, isArgument)
      const value = yield* this.#value(pair, level)
      if (value === null) pieces.trim()
      else pieces.add(value)
      yield* this.#spend(unitsOfMacro + ((value?.length ?? 0) >> 6))
      place = pair.close + 2
      index = firstPairFrom(this.#pairs, place)
    }
    yield* this.#addLiteral(pieces, place, end, isArgument)
    return pieces.join()
  }

  /** The value of one macro; null for `{{trim}}`. */
  *#value({ open, close }: Pair, level: number): Steps<string | null> {
    opening.lastIndex = open + 2
    const match = opening.exec(this.#text)
    const start = opening.lastIndex
    if (!match || start > close) return yield* this.#asWritten(open, close, level)
    const name = (match[1] ?? match[2] ?? '').toLowerCase()
    const hasColon = match[3] !== undefined
    const isBare = !hasColon && (start === close || this.#text.slice(start, close).trim() === '')
    const fits = name === '//' || (name === 'roll' ? !isBare : withArguments.has(name) ? hasColon : isBare)
    const known = fits ? yield* this.#known(name, start, close, level) : undefined
    if (known !== undefined) return known
    if (name.length <= longestUnknownName) this.#environment.onUnknown?.(name)
    return yield* this.#asWritten(open, close, level)
  }

  /** The value of a macro that there is; undefined for one that there is not. */
  *#known(name: string, start: number, end: number, level: number): Steps<string | null | undefined> {
    const environment = this.#environment
    const argument = () => this.#range(start, end, level + 1, true)
    switch (name) {
      case 'char':
        return environment.character
      case 'user':
        return environment.user
      case 'original':
        return environment.original
      case '//':
      case 'comment':
      case 'noop':
      case 'persona':
        return ''
      case 'hidden_key':
        return environment.showsHiddenKeys ? yield* argument() : ''
      case 'newline':
        return '\n'
      case 'trim':
        return null
      case 'reverse':
        return yield* reversed(yield* argument())
      case 'random':
      case 'pick':
        return yield* this.#chosen(name, start, end, level)
      case 'roll':
        environment.onVarying?.()
        yield* this.#spend(mostDice)
        return roll(yield* argument(), environment.random ?? Math.random)
      case 'description':
      case 'personality':
      case 'scenario':
        return environment.textOf ? yield* environment.textOf(name) : ''
      default: {
        if (!isClock(name)) return undefined
        environment.onVarying?.()
        this.#clock ??= environment.clock ?? clockAt(new Date())
        return this.#clock(name)
      }
    }
  }

  /** One of the values of `{{random}}` or `{{pick}}`; only that one is expanded. */
  *#chosen(name: 'random' | 'pick', start: number, end: number, level: number): Steps<string> {
    const { seed = '', random = Math.random, onVarying } = this.#environment
    onVarying?.()
    const { separators, width } = yield* this.#split(start, end)
    const count = separators.length + 1
    const index = name === 'random' ? Math.floor(random() * count) : this.#picks(seed)(count, start)
    const before = separators[index - 1]
    const from = before === undefined ? start : before + width
    const to = separators[index] ?? end
    if (width === 2) return yield* this.#range(from, to, level + 1, true)
    const written = this.#text.slice(from, to)
    const blanks = written.length - written.trimStart().length
    return yield* this.#range(from + blanks, from + blanks + written.trim().length, level + 1, true)
  }

  #picks(seed: string): ReturnType<typeof picker> {
    if (!this.#pick) {
      this.#units += this.#text.length >> 3
      this.#pick = picker(seed, this.#text)
    }
    return this.#pick
  }

  /** What stands between the values of a list: `::` where there is one, else commas; and how long each is. */
  *#split(start: number, end: number): Steps<{ readonly separators: readonly number[]; readonly width: number }> {
    const colons: number[] = []
    const commas: number[] = []
    let index = firstPairFrom(this.#pairs, start)
    let looked = start
    for (let place = start; place < end; place++) {
      if (place - looked >= unitsOfStep) {
        yield* this.#spend(place - looked)
        looked = place
      }
      const pair = this.#pairs[index]
      if (pair && pair.open === place && pair.close < end) {
        place = pair.close + 1
        index = firstPairFrom(this.#pairs, place)
        looked = place
        continue
      }
      const character = this.#text[place]
      if (character === '\\') place++
      else if (character === ',') commas.push(place)
      else if (character === ':' && this.#text[place + 1] === ':') colons.push(place++)
    }
    return colons.length > 0 ? { separators: colons, width: 2 } : { separators: commas, width: 1 }
  }

  *#asWritten(open: number, close: number, level: number): Steps<string> {
    return `{{${yield* this.#range(open + 2, close, level + 1, false)}}}`
  }

  /** Adds text without braces to read, a long one part by part. */
  *#addLiteral(pieces: Pieces, start: number, end: number, isArgument: boolean): Steps<void> {
    for (let from = start; from < end; ) {
      const to = this.#literalEnd(from, end)
      const piece = this.#literal(from, to, isArgument)
      pieces.add(piece)
      yield* this.#spend((to - from + piece.length) >> 3)
      from = to
    }
  }

  /** Where a part of a text without braces ends: neither in `<USER>` and the like, nor between `\` and a comma. */
  #literalEnd(start: number, end: number): number {
    const cut = start + longestLiteral
    if (cut >= end) return end
    const mark = /[<\\][^<\\]*$/.exec(this.#text.slice(cut - 6, cut))
    return mark ? cut - 6 + mark.index : cut
  }

  /** Text without braces to read, with `<USER>` and the like replaced. */
  #literal(start: number, end: number, isArgument: boolean): string {
    const written = this.#text.slice(start, end)
    const text = isArgument ? written.replaceAll('\\,', ',') : written
    if (!text.includes('<')) return text
    const { character, user } = this.#environment
    // Counted before it is made: a long name times many places would be too much to hold.
    const most = (text.match(angled)?.length ?? 0) * Math.max(character.length, user.length)
    if (most > longestExpansion) throw tooLarge()
    return text.replace(angled, (_written, name: string) => (name.toLowerCase() === 'user' ? user : character))
  }
}

/** The pieces of an expanded text. */
class Pieces {
  readonly #pieces: string[] = []
  #length = 0
  #trims = false

  /** @throws ApiError 400 `card_too_large` beyond `longestExpansion` */
  add(piece: string): void {
    const added = this.#trims ? withoutLineBreaks(piece, 'start') : piece
    if (added === '') return
    this.#trims = false
    this.#length += added.length
    if (this.#length > longestExpansion) throw tooLarge()
    this.#pieces.push(added)
  }

  /** Takes the line breaks around this place away, as `{{trim}}` does. */
  trim(): void {
    for (let last = this.#pieces.pop(); last !== undefined; last = this.#pieces.pop()) {
      const rest = withoutLineBreaks(last, 'end')
      if (rest === '') continue
      this.#pieces.push(rest)
      break
    }
    this.#trims = true
  }

  join(): string {
    return this.#pieces.join('')
  }
}

/** Loops, since a pattern for the end would look at every run of line breaks again from each of them. */
function withoutLineBreaks(text: string, side: 'start' | 'end'): string {
  const isBreak = (at: number) => text[at] === '\n' || text[at] === '\r'
  let start = 0
  let end = text.length
  if (side === 'start') while (isBreak(start)) start++
  else while (end > 0 && isBreak(end - 1)) end--
  return text.slice(start, end)
}

/** What is said of a card whose macros would take too long. */
function tooManyMacros(): ApiError {
  return new ApiError(
    400,
    'card_too_large',
    `The character's texts have more than ${mostMacros} macros, which are not all expanded in one prompt. Use another card.`,
    { param: 'character' },
  )
}

/** What is said of a card whose texts grow beyond all measure. */
export function tooLarge(): ApiError {
  return new ApiError(
    400,
    'card_too_large',
    "The character's texts get too long once their macros are expanded. Use another card.",
    { param: 'character' },
  )
}

const comments = /\{\{\s*(?:\/\/|comment\s*:)/i

/** A chat text as lore is looked for in it: without `{{// …}}` and `{{comment: …}}`. */
export function* withoutComments(text: string): Steps<string> {
  if (!text.includes('{{')) return text
  yield text.length >> 4
  if (!comments.test(text)) return text
  const pieces: string[] = []
  const pairs = yield* bracePairs(text)
  let place = 0
  for (const [index, { open, close }] of pairs.entries()) {
    if (index % 100 === 99) yield 1000
    if (open < place) continue
    if (!/^\s*(?:\/\/|comment\s*:)/i.test(text.slice(open + 2, Math.min(close, open + 64)))) continue
    pieces.push(text.slice(place, open))
    place = close + 2
  }
  return pieces.join('') + text.slice(place)
}
