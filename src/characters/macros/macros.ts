import { ApiError } from '../../errors.ts'
import { bracePairs, firstPairFrom, type Pair } from './braces.ts'
import { type Clock, clockAt, isClock, type MacroEnvironment, picker, reversed, roll } from './values.ts'

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

/**
 * Puts their values in the place of macros, in one pass: what is put in is never read again, so that no name can
 * smuggle in a macro. Unknown macros stay as written. It takes time in proportion to the text.
 * @throws ApiError 400 `card_too_large` when the result gets longer than `longestExpansion`, or there are more than
 *   `mostMacros`
 */
export function expandMacros(text: string, environment: MacroEnvironment): string {
  if (!hasMacro(text)) return text
  return new Expansion(text, environment).range(0, text.length, 0, false)
}

/** One text being expanded. */
class Expansion {
  readonly #text: string
  readonly #environment: MacroEnvironment
  readonly #pairs: readonly Pair[]
  #pick: ReturnType<typeof picker> | undefined
  #clock: Clock | undefined

  constructor(text: string, environment: MacroEnvironment) {
    this.#text = text
    this.#environment = environment
    const counter = environment.counter ?? { macros: 0 }
    this.#pairs = bracePairs(text, mostMacros - counter.macros + 1)
    counter.macros += this.#pairs.length
    if (counter.macros > mostMacros) throw tooManyMacros()
  }

  /** Expands what stands from one place to another. @param isArgument whether `\,` stands for a comma there */
  range(start: number, end: number, level: number, isArgument: boolean): string {
    const pieces: string[] = []
    let made = 0
    let trims = false
    const add = (piece: string) => {
      const added = trims ? withoutLineBreaks(piece, 'start') : piece
      if (added === '') return
      trims = false
      made += added.length
      if (made > longestExpansion) throw tooLarge()
      pieces.push(added)
    }
    let place = start
    for (let index = firstPairFrom(this.#pairs, start); ; ) {
      const pair = this.#pairs[index]
      if (!pair || pair.close >= end || level >= mostLevels) break
      add(this.#literal(place, pair.open, isArgument))
      const value = this.#value(pair, level)
      if (value === null) {
        // `{{trim}}` takes the line breaks around it away.
        for (let last = pieces.pop(); last !== undefined; last = pieces.pop()) {
          const rest = withoutLineBreaks(last, 'end')
          if (rest === '') continue
          pieces.push(rest)
          break
        }
        trims = true
      } else {
        add(value)
      }
      place = pair.close + 2
      index = firstPairFrom(this.#pairs, place)
    }
    add(this.#literal(place, end, isArgument))
    return pieces.join('')
  }

  /** The value of one macro; null for `{{trim}}`. */
  #value({ open, close }: Pair, level: number): string | null {
    opening.lastIndex = open + 2
    const match = opening.exec(this.#text)
    const start = opening.lastIndex
    if (!match || start > close) return this.#asWritten(open, close, level)
    const name = (match[1] ?? match[2] ?? '').toLowerCase()
    const hasColon = match[3] !== undefined
    const isBare = !hasColon && (start === close || this.#text.slice(start, close).trim() === '')
    const fits = name === '//' || (name === 'roll' ? !isBare : withArguments.has(name) ? hasColon : isBare)
    const known = fits ? this.#known(name, start, close, level) : undefined
    if (known !== undefined) return known
    if (name.length <= longestUnknownName) this.#environment.onUnknown?.(name)
    return this.#asWritten(open, close, level)
  }

  /** The value of a macro that there is; undefined for one that there is not. */
  #known(name: string, start: number, end: number, level: number): string | null | undefined {
    const environment = this.#environment
    const argument = () => this.range(start, end, level + 1, true)
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
        return environment.showsHiddenKeys ? argument() : ''
      case 'newline':
        return '\n'
      case 'trim':
        return null
      case 'reverse':
        return reversed(argument())
      case 'random':
      case 'pick':
        return this.#chosen(name, start, end, level)
      case 'roll':
        environment.onVarying?.()
        return roll(argument(), environment.random ?? Math.random)
      case 'description':
      case 'personality':
      case 'scenario':
        return environment.textOf?.(name) ?? ''
      default: {
        if (!isClock(name)) return undefined
        environment.onVarying?.()
        this.#clock ??= environment.clock ?? clockAt(new Date())
        return this.#clock(name)
      }
    }
  }

  /** One of the values of `{{random}}` or `{{pick}}`; only that one is expanded. */
  #chosen(name: 'random' | 'pick', start: number, end: number, level: number): string {
    const { seed = '', random = Math.random, onVarying } = this.#environment
    onVarying?.()
    const values = this.#split(start, end)
    const index = name === 'random' ? Math.floor(random() * values.length) : this.#picks(seed)(values.length, start)
    const [from, to] = values[index] ?? [start, start]
    return this.range(from, to, level + 1, true)
  }

  #picks(seed: string): ReturnType<typeof picker> {
    this.#pick ??= picker(seed, this.#text)
    return this.#pick
  }

  /** Where the values of a list stand: between `::` where there is one, else between commas, without blanks around. */
  #split(start: number, end: number): readonly (readonly [number, number])[] {
    const colons: number[] = []
    const commas: number[] = []
    let index = firstPairFrom(this.#pairs, start)
    for (let place = start; place < end; place++) {
      const pair = this.#pairs[index]
      if (pair && pair.open === place && pair.close < end) {
        place = pair.close + 1
        index = firstPairFrom(this.#pairs, place)
        continue
      }
      const character = this.#text[place]
      if (character === '\\') place++
      else if (character === ',') commas.push(place)
      else if (character === ':' && this.#text[place + 1] === ':') colons.push(place++)
    }
    const [separators, width] = colons.length > 0 ? [colons, 2] : [commas, 1]
    const starts = [start, ...separators.map((place) => place + width)]
    const ends = [...separators, end]
    return starts.map((from, nth) => {
      const to = ends[nth] ?? end
      if (width === 2) return [from, to] as const
      const written = this.#text.slice(from, to)
      const blanks = written.length - written.trimStart().length
      return [from + blanks, from + blanks + written.trim().length] as const
    })
  }

  #asWritten(open: number, close: number, level: number): string {
    return `{{${this.range(open + 2, close, level + 1, false)}}}`
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
export function withoutComments(text: string): string {
  if (!text.includes('{{') || !comments.test(text)) return text
  const pieces: string[] = []
  const pairs = bracePairs(text)
  let place = 0
  for (const { open, close } of pairs) {
    if (open < place) continue
    if (!/^\s*(?:\/\/|comment\s*:)/i.test(text.slice(open + 2, Math.min(close, open + 64)))) continue
    pieces.push(text.slice(place, open))
    place = close + 2
  }
  return pieces.join('') + text.slice(place)
}
