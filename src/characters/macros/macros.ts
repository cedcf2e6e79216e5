import { ApiError } from '../../errors.ts'
import type { Steps } from '../../work.ts'
import { bracePairs, firstPairFrom, type Pair } from './braces.ts'
import { type Clock, clockAt, isClock } from './clock.ts'
import { type Block, type Conditions, conditionsIn, isTrue, withoutIndent } from './conditions.ts'
import { maxDice, roll } from './dice.ts'
import { separatorsIn } from './separators.ts'
import { isChatMacro, type MacroEnvironment, picker, reversed } from './values.ts'

/** How deep macros may nest; what lies deeper stays as it is written. */
const maxDepth = 32
/** Characters that one text may have once it is expanded. */
export const maxExpansionLength = 1024 ** 2
const maxNameLength = 64
/** Macros that one prompt may have, nested ones included: some 30 ms of work; real cards have dozens. */
export const maxMacros = 3000

const angled = /<(char|bot|user|group|charifnotgroup)>/gi
const anyMacro = /\{\{|<(?:char|bot|user|group|charifnotgroup)>/i
/** What a macro begins with: its name, and one colon, two, or a blank. */
const opening = /\s*(?:(\/\/)|#?([a-z_][a-z0-9_]*(?:[+-]\d[\d:]*)?)(?:\s*(::?)|\s+|(?=\}\})))/iy
/** What stands where a name should, for telling of what is not known. */
const anyName = /\s*([^\s:{}]+)/y
/** Macros that take something after a colon, those that take it after a blank too, and those for which it is optional. */
const afterColon = new Set(['comment', 'hidden_key'])
const afterAnything = new Set(['if', 'reverse', 'random', 'pick', 'roll', 'datetimeformat'])
const anywhere = new Set(['//', 'time', 'newline', 'space'])
/** A macro's name where a condition names it, and a variable there, as SillyTavern writes it. */
const bareName = /^[a-z_][a-z0-9_]*$/i
const variable = /^[.$][a-z]/i
const negation = /\s*(!?)\s*/y

/** Tells whether expanding a text could change it. */
export function hasMacro(text: string): boolean {
  return anyMacro.test(text)
}

/** Characters that all texts of one prompt may have once they are expanded, those that are not sent too. */
export const maxExpandedLength = 32 * maxExpansionLength
/** Characters of text without braces that are read in one step. */
const maxLiteralLength = 64 * 1024
/** Units of work of one macro, and after which a step ends. */
const unitsOfMacro = 60
const unitsOfStep = 1000

/**
 * Puts their values in the place of macros, in one pass: what is put in is never read again, so that no name can
 * smuggle in a macro. Unknown macros stay as written. It takes time in proportion to the text.
 * @throws ApiError 400 `card_too_large` when the result gets longer than `maxExpansionLength`, or there are more than
 *   `maxMacros`, and when all texts of one counter get too long together
 */
export function* expandMacros(text: string, environment: MacroEnvironment): Steps<string> {
  if (!hasMacro(text)) return text
  const { counter = { macros: 0, characters: 0 } } = environment
  const pairs = yield* bracePairs(text, maxMacros - counter.macros + 1)
  counter.macros += pairs.length
  if (counter.macros > maxMacros) throw tooManyMacros()
  const expanded = yield* new Expansion(text, pairs, environment).whole()
  counter.characters += expanded.length
  if (counter.characters > maxExpandedLength) throw tooLarge()
  return expanded
}

/** One text being expanded. */
class Expansion {
  readonly #text: string
  readonly #environment: MacroEnvironment
  readonly #pairs: readonly Pair[]
  #pick: ReturnType<typeof picker> | undefined
  #clock: Clock | undefined
  #conditions: Conditions | undefined
  /** Conditions that are being read: in them a macro that is not known stands for nothing. */
  #judging = 0
  /** Work since the last step. */
  #units = 0

  constructor(text: string, pairs: readonly Pair[], environment: MacroEnvironment) {
    this.#text = text
    this.#environment = environment
    this.#pairs = pairs
  }

  *whole(): Steps<string> {
    this.#conditions = yield* conditionsIn(this.#text, this.#pairs)
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
      if (!pair || pair.close >= end || level >= maxDepth) break
      yield* this.#addLiteral(pieces, place, pair.open, isArgument)
      const found = this.#conditions?.blocks.get(pair.open)
      const block = found && found.end.close < end ? found : undefined
      const value = block ? yield* this.#ofBlock(pair, block, level) : yield* this.#value(pair, level)
      if (value === null) pieces.trim()
      else pieces.add(value)
      yield* this.#spend(unitsOfMacro + ((value?.length ?? 0) >> 6))
      place = (block?.end ?? pair).close + 2
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
    if (match && start <= close) {
      const name = (match[1] ?? match[2] ?? '').toLowerCase()
      const hasColon = match[3] !== undefined
      const known = fits(name, hasColon, !hasColon && start === close)
        ? yield* this.#known(name, start, close, level)
        : undefined
      if (known !== undefined) return known
    }
    this.#tellUnknown(open + 2, close)
    return this.#judging > 0 ? '' : yield* this.#asWritten(open, close, level)
  }

  /** Tells of a macro that is not known, by what stands in the place of its name. */
  #tellUnknown(start: number, end: number): void {
    anyName.lastIndex = start
    const name = anyName.exec(this.#text)?.[1]
    if (name === undefined || anyName.lastIndex > end) return
    const lower = name.toLowerCase()
    this.#environment.onUnknown?.(
      lower.length > maxNameLength ? `${lower.slice(0, maxNameLength).toWellFormed()}…` : lower,
    )
  }

  /** The value of a macro that there is; undefined for one that there is not. */
  *#known(name: string, start: number, end: number, level: number): Steps<string | null | undefined> {
    const environment = this.#environment
    const argument = () => this.#range(start, end, level + 1, true)
    switch (name) {
      case 'char':
      case 'bot':
      case 'group':
      case 'groupnotmuted':
      case 'charifnotgroup':
        return environment.character
      case 'user':
      case 'notchar':
        return environment.user
      case 'original':
        return environment.original
      case '//':
      case 'comment':
      case 'noop':
        return ''
      case 'persona':
        environment.onVarying?.()
        if (environment.persona === undefined) environment.onUnknown?.(name)
        return environment.persona ?? ''
      case 'hidden_key':
        return environment.showsHiddenKeys ? yield* argument() : ''
      case 'newline':
        return repeated('\n', yield* argument())
      case 'space':
        return repeated(' ', yield* argument())
      case 'trim':
        return null
      case 'reverse':
        return yield* reversed(yield* argument())
      case 'random':
      case 'pick':
        return yield* this.#chosen(name, start, end, level)
      case 'roll':
        environment.onVarying?.()
        yield* this.#spend(maxDice)
        return roll(yield* argument(), environment.random ?? Math.random)
      case 'description':
      case 'personality':
      case 'scenario':
        return environment.textOf ? yield* environment.textOf(name) : ''
      case 'if':
        return yield* this.#whole(start, end, level)
      default:
        return yield* this.#told(name, start, end, level)
    }
  }

  /** The value of a macro that tells of the time or the conversation; undefined for another. */
  *#told(name: string, start: number, end: number, level: number): Steps<string | undefined> {
    if (isChatMacro(name)) {
      this.#environment.onVarying?.()
      return this.#environment.chatText ? yield* this.#environment.chatText(name) : ''
    }
    if (name === 'datetimeformat') return this.#now().format(yield* this.#range(start, end, level + 1, true))
    const offset = name.startsWith('time_') ? name.slice('time_'.length) : this.#text.slice(start, end).trim()
    if (name.startsWith('time_') || (name === 'time' && offset !== '')) return this.#now().timeAt(offset)
    return isClock(name) ? this.#now().tell(name) : undefined
  }

  #now(): Clock {
    this.#environment.onVarying?.()
    this.#clock ??= this.#environment.clock ?? clockAt(new Date())
    return this.#clock
  }

  /** What stands between `{{if …}}` and `{{/if}}`, as far as its condition lets it; nothing of a comment. */
  *#ofBlock(begin: Pair, { isComment, otherwise, end }: Block, level: number): Steps<string> {
    if (isComment) return ''
    opening.lastIndex = begin.open + 2
    const keepsBlanks = opening.exec(this.#text)?.[0].includes('#') === true
    const isMet = yield* this.#isMet(opening.lastIndex, begin.close, level)
    if (!isMet && !otherwise) return ''
    const from = isMet ? begin : otherwise
    const to = isMet ? (otherwise ?? end) : end
    return yield* this.#branch((from ?? begin).close + 2, to.open, level, keepsBlanks)
  }

  /** What a condition comes to: a macro by its bare name, or whatever text its macros make. */
  *#isMet(start: number, end: number, level: number): Steps<boolean> {
    negation.lastIndex = start
    const isNegated = negation.exec(this.#text)?.[1] === '!'
    const from = negation.lastIndex
    const written = end - from <= maxNameLength ? this.#text.slice(from, end).trim() : ''
    return isTrue(yield* this.#judged(written, from, end, level)) !== isNegated
  }

  *#judged(written: string, start: number, end: number, level: number): Steps<string> {
    if (variable.test(written)) {
      // There are no variables here, and one that is not set is empty.
      this.#environment.onUnknown?.(written)
      return ''
    }
    if (bareName.test(written)) {
      const name = written.toLowerCase()
      const known = fits(name, false, true) ? yield* this.#known(name, end, end, level) : undefined
      return known === undefined ? written : (known ?? '')
    }
    this.#judging += 1
    const value = yield* this.#range(start, end, level + 1, false)
    this.#judging -= 1
    return value
  }

  *#branch(start: number, end: number, level: number, keepsBlanks: boolean): Steps<string> {
    const text = yield* this.#range(start, end, level + 1, false)
    if (keepsBlanks) return text
    yield* this.#spend(text.length)
    return withoutIndent(text)
  }

  /** The value of `{{if::condition::content}}`; undefined where there is no content. */
  *#whole(start: number, end: number, level: number): Steps<string | undefined> {
    const [first] = (yield* separatorsIn(this.#text, this.#pairs, start, end)).colons
    if (first === undefined) return undefined
    const otherwise = this.#conditions?.inner.get(end)
    if (yield* this.#isMet(start, first, level)) {
      return yield* this.#branch(first + 2, otherwise?.open ?? end, level, false)
    }
    return otherwise ? yield* this.#branch(otherwise.close + 2, end, level, false) : ''
  }

  /** One of the values of `{{random}}` or `{{pick}}`; only that one is expanded. */
  *#chosen(name: 'random' | 'pick', start: number, end: number, level: number): Steps<string> {
    const { seed = '', random = Math.random, onVarying } = this.#environment
    onVarying?.()
    const { commas, colons } = yield* separatorsIn(this.#text, this.#pairs, start, end)
    const [separators, width] = colons.length > 0 ? [colons, 2] : [commas, 1]
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
    const cut = start + maxLiteralLength
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
    if (most > maxExpansionLength) throw tooLarge()
    return text.replace(angled, (_written, name: string) => (name.toLowerCase() === 'user' ? user : character))
  }
}

/** Whether a macro of this name may be written so. */
function fits(name: string, hasColon: boolean, isBare: boolean): boolean {
  if (anywhere.has(name)) return true
  if (afterAnything.has(name)) return !isBare
  return afterColon.has(name) ? hasColon : isBare
}

/**
 * A blank as often as a macro's argument says, once without one; undefined for what is no number, and stays as written.
 * @throws ApiError 400 `card_too_large` beyond `maxExpansionLength`
 */
function repeated(blank: string, argument: string): string | undefined {
  const count = argument.trim() || '1'
  if (!/^\d+$/.test(count)) return undefined
  if (Number(count) > maxExpansionLength) throw tooLarge()
  return blank.repeat(Number(count))
}

/** The pieces of an expanded text. */
class Pieces {
  readonly #pieces: string[] = []
  #length = 0
  #trims = false

  /** @throws ApiError 400 `card_too_large` beyond `maxExpansionLength` */
  add(piece: string): void {
    const added = this.#trims ? withoutLineBreaks(piece, 'start') : piece
    if (added === '') return
    this.#trims = false
    this.#length += added.length
    if (this.#length > maxExpansionLength) throw tooLarge()
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
    `The texts of the card and of the request have more than ${maxMacros} macros together, which are not all expanded in one prompt. Use another card, or send fewer macros.`,
    { param: 'character' },
  )
}

/** What is said of a card whose texts grow beyond all measure. */
export function tooLarge(): ApiError {
  return new ApiError(
    400,
    'card_too_large',
    'The texts of the card and of the request get too long once their macros are expanded. Use another card, or send fewer macros.',
    { param: 'character' },
  )
}

const comments = /\{\{\s*(?:\/\/|comment\s*:)/i

/** A chat text as lore is looked for in it: without `{{// …}}`, `{{comment: …}}` and `{{//}}…{{///}}`. */
export function* withoutComments(text: string): Steps<string> {
  if (!text.includes('{{')) return text
  yield text.length >> 4
  if (!comments.test(text)) return text
  const pieces: string[] = []
  const pairs = yield* bracePairs(text)
  const { blocks } = yield* conditionsIn(text, pairs)
  let place = 0
  for (const [index, { open, close }] of pairs.entries()) {
    if (index % 100 === 99) yield 1000
    if (open < place) continue
    if (!/^\s*(?:\/\/|comment\s*:)/i.test(text.slice(open + 2, Math.min(close, open + 64)))) continue
    pieces.push(text.slice(place, open))
    place = (blocks.get(open)?.end.close ?? close) + 2
  }
  return pieces.join('') + text.slice(place)
}
