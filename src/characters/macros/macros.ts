import { ApiError } from '../../errors.ts'
import { beginningOf } from '../../text.ts'
import { spend } from '../../work/fuel.ts'
import { bracePairs, firstPairFrom, type Pair } from './braces.ts'
import { type Clock, clockAt, isClock } from './clock.ts'
import { type Block, type Conditions, conditionsIn, isTrue, withoutIndent } from './conditions.ts'
import { maxDice, roll } from './dice.ts'
import { separatorsIn } from './separators.ts'
import { isChatMacro, type MacroEnvironment, picker, reversed } from './values.ts'

/** The most levels of nested macros; deeper macros stay as written. */
const maxDepth = 32
/** The most characters of one expanded text. */
export const maxExpansionLength = 1024 ** 2
const maxNameLength = 64
/**
 * The most macros in the texts of one prompt. Nested macros count too. Real cards have dozens. If each macro rolls 1,000 dice,
 * all macros together take some 30 ms.
 */
export const maxMacros = 3000

const angled = /<(char|bot|user|group|charifnotgroup)>/gi
const anyMacro = /\{\{|<(?:char|bot|user|group|charifnotgroup)>/i
/**
 * The beginning of a macro: its name, then one colon, two colons, white space, or the end of the macro. The bounds are far above
 * those of real macros: a search over millions of letters would take long.
 */
const opening =
  /\s{0,1000}(?:(\/\/)|#?([a-z_][a-z0-9_]{0,63}(?:[+-]\d[\d:]{0,9})?)(?:\s{0,1000}(::?)|\s{1,1000}|(?=\}\})))/iy
/** The text in the place of a macro's name, for reports of unknown macros. */
const anyName = /\s{0,1000}([^\s:{}]{1,1000})/y
/**
 * Macros with an argument after a colon, macros with an argument after a colon or a space, and macros with an optional argument.
 */
const afterColon = new Set(['comment', 'hidden_key'])
const afterAnything = new Set(['if', 'reverse', 'random', 'pick', 'roll', 'datetimeformat'])
const argumentOptional = new Set(['//', 'time', 'newline', 'space'])
/** Conditions that are only the name of a macro, and conditions that begin with a variable of SillyTavern. */
const bareName = /^[a-z_][a-z0-9_]*$/i
const variable = /^[.$][a-z]/i
const negation = /\s*(?:(!)\s*)?/y

/** Whether an expansion could change a text. */
export function hasMacro(text: string): boolean {
  return anyMacro.test(text)
}

/** The most characters of all texts that are expanded for one prompt, even if they are not sent. */
export const maxExpandedLength = 32 * maxExpansionLength
/** Units of work for one macro, for one macro such as `<USER>`, and to expand one text besides its macros. */
const unitsOfMacro = 80
const unitsOfAngled = 20
const unitsOfText = 150

/**
 * Replaces macros by their values, in one pass: inserted values are not expanded again, so that a name cannot inject a macro.
 * Unknown macros stay as written. The time is linear in the length of the text.
 * @throws ApiError 400 `card_too_large` if the result is longer than `maxExpansionLength`, or if all texts of one counter have
 *   more than `maxMacros` macros or `maxExpandedLength` characters together
 */
export function expandMacros(text: string, environment: MacroEnvironment): string {
  if (!hasMacro(text)) return text
  const { counter = { macros: 0, characters: 0 } } = environment
  const pairs = bracePairs(text, maxMacros - counter.macros + 1)
  spend(unitsOfText)
  counter.macros += pairs.length
  if (counter.macros > maxMacros) throw tooManyMacros()
  const expanded = new Expansion(text, pairs, environment).whole()
  counter.characters += expanded.length
  if (counter.characters > maxExpandedLength) throw tooLarge()
  return expanded
}

/** The expansion of one text. */
class Expansion {
  readonly #text: string
  readonly #environment: MacroEnvironment
  readonly #pairs: readonly Pair[]
  #pick: ReturnType<typeof picker> | undefined
  #clock: Clock | undefined
  #conditions: Conditions | undefined
  /** The number of conditions whose text is being expanded. In such a text, an unknown macro is empty. */
  #conditionDepth = 0

  constructor(text: string, pairs: readonly Pair[], environment: MacroEnvironment) {
    this.#text = text
    this.#environment = environment
    this.#pairs = pairs
  }

  whole(): string {
    this.#conditions = conditionsIn(this.#text, this.#pairs)
    return this.#range(0, this.#text.length, 0, false)
  }

  /** Expands the text from `start` to `end`. @param isArgument whether `\,` is an escaped comma */
  #range(start: number, end: number, level: number, isArgument: boolean): string {
    const pieces = new Pieces()
    let place = start
    for (let index = firstPairFrom(this.#pairs, start); ; ) {
      const pair = this.#pairs[index]
      if (!pair || pair.close >= end || level >= maxDepth) break
      pieces.add(this.#literal(place, pair.open, isArgument))
      const found = this.#conditions?.blocks.get(pair.open)
      const block = found && found.end.close < end ? found : undefined
      const value = block ? this.#ofBlock(pair, block, level) : this.#value(pair, level)
      if (value === null) pieces.trim()
      else pieces.add(value)
      spend(unitsOfMacro + ((value?.length ?? 0) >> 6))
      place = (block?.end ?? pair).close + 2
      index = firstPairFrom(this.#pairs, place)
    }
    pieces.add(this.#literal(place, end, isArgument))
    return pieces.join()
  }

  /**
   * The value of one macro; null for `{{trim}}`. An unknown macro stays as written, but in the text of a condition it is empty.
   */
  #value({ open, close }: Pair, level: number): string | null {
    opening.lastIndex = open + 2
    const match = opening.exec(this.#text)
    const start = opening.lastIndex
    if (match && start <= close) {
      const name = (match[1] ?? match[2] ?? '').toLowerCase()
      const hasColon = match[3] !== undefined
      const known = fits(name, hasColon, !hasColon && start === close)
        ? this.#known(name, start, close, level)
        : undefined
      if (known !== undefined) return known
    }
    this.#reportUnknown(open + 2, close)
    return this.#conditionDepth > 0 ? '' : this.#asWritten(open, close, level)
  }

  /** Reports an unknown macro by the text in the place of its name. */
  #reportUnknown(start: number, end: number): void {
    anyName.lastIndex = start
    const name = anyName.exec(this.#text)?.[1]
    if (name === undefined || anyName.lastIndex > end) return
    this.#environment.onUnknown?.(beginningOf(name.toLowerCase(), maxNameLength))
  }

  /** The value of a known macro; null for `{{trim}}`, and undefined for an unknown macro. */
  #known(name: string, start: number, end: number, level: number): string | null | undefined {
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
        return environment.showsHiddenKeys ? argument() : ''
      case 'newline':
        return repeated('\n', argument())
      case 'space':
        return repeated(' ', argument())
      case 'trim':
        return null
      case 'reverse':
        return reversed(argument())
      case 'random':
      case 'pick':
        return this.#chosen(name, start, end, level)
      case 'roll':
        environment.onVarying?.()
        spend(maxDice)
        return roll(argument(), environment.random ?? Math.random)
      case 'description':
      case 'personality':
      case 'scenario':
        return environment.textOf ? environment.textOf(name) : ''
      case 'if':
        return this.#inlineIf(start, end, level)
      default:
        return this.#clockOrChatValue(name, start, end, level)
    }
  }

  /** The value of a macro for the time or the conversation; undefined for another macro. */
  #clockOrChatValue(name: string, start: number, end: number, level: number): string | undefined {
    if (isChatMacro(name)) {
      this.#environment.onVarying?.()
      return this.#environment.chatText ? this.#environment.chatText(name) : ''
    }
    if (name === 'datetimeformat') return this.#now().format(this.#range(start, end, level + 1, true))
    const offset = name.startsWith('time_') ? name.slice('time_'.length) : this.#text.slice(start, end).trim()
    if (name.startsWith('time_') || (name === 'time' && offset !== '')) return this.#now().timeAt(offset)
    return isClock(name) ? this.#now().value(name) : undefined
  }

  #now(): Clock {
    this.#environment.onVarying?.()
    this.#clock ??= this.#environment.clock ?? clockAt(new Date())
    return this.#clock
  }

  /** The branch of a condition that applies, expanded; empty for a comment. */
  #ofBlock(begin: Pair, { isComment, otherwise, end }: Block, level: number): string {
    if (isComment) return ''
    opening.lastIndex = begin.open + 2
    const keepsBlanks = opening.exec(this.#text)?.[0].includes('#') === true
    const isMet = this.#isMet(opening.lastIndex, begin.close, level)
    if (!isMet && !otherwise) return ''
    const from = isMet ? begin : otherwise
    const to = isMet ? (otherwise ?? end) : end
    return this.#branch((from ?? begin).close + 2, to.open, level, keepsBlanks)
  }

  /**
   * Whether a condition is true. If the text of the condition is only the name of a macro, the value of this macro decides.
   * Otherwise, the expanded text decides.
   */
  #isMet(start: number, end: number, level: number): boolean {
    negation.lastIndex = start
    const isNegated = negation.exec(this.#text)?.[1] !== undefined
    const from = negation.lastIndex
    const written = end - from <= maxNameLength ? this.#text.slice(from, end).trim() : ''
    return isTrue(this.#conditionText(written, from, end, level)) !== isNegated
  }

  #conditionText(written: string, start: number, end: number, level: number): string {
    if (variable.test(written)) {
      // The service has no variables; an unset variable is empty.
      this.#environment.onUnknown?.(written)
      return ''
    }
    if (bareName.test(written)) {
      const name = written.toLowerCase()
      const known = fits(name, false, true) ? this.#known(name, end, end, level) : undefined
      return known === undefined ? written : (known ?? '')
    }
    this.#conditionDepth += 1
    const value = this.#range(start, end, level + 1, false)
    this.#conditionDepth -= 1
    return value
  }

  #branch(start: number, end: number, level: number, keepsBlanks: boolean): string {
    const text = this.#range(start, end, level + 1, false)
    if (keepsBlanks) return text
    spend(text.length)
    return withoutIndent(text)
  }

  /** The value of `{{if::condition::content}}`; undefined without content. */
  #inlineIf(start: number, end: number, level: number): string | undefined {
    const [first] = separatorsIn(this.#text, this.#pairs, start, end).colons
    if (first === undefined) return undefined
    const otherwise = this.#conditions?.inner.get(end)
    if (this.#isMet(start, first, level)) {
      return this.#branch(first + 2, otherwise?.open ?? end, level, false)
    }
    return otherwise ? this.#branch(otherwise.close + 2, end, level, false) : ''
  }

  /** One of the values of `{{random}}` or `{{pick}}`; only the chosen value is expanded. */
  #chosen(name: 'random' | 'pick', start: number, end: number, level: number): string {
    const { seed = '', random = Math.random, onVarying } = this.#environment
    onVarying?.()
    const { commas, colons } = separatorsIn(this.#text, this.#pairs, start, end)
    const [separators, width] = colons.length > 0 ? [colons, 2] : [commas, 1]
    const count = separators.length + 1
    const index = name === 'random' ? Math.floor(random() * count) : this.#picker(seed)(count, start)
    const before = separators[index - 1]
    const from = before === undefined ? start : before + width
    const to = separators[index] ?? end
    if (width === 2) return this.#range(from, to, level + 1, true)
    const written = this.#text.slice(from, to)
    const blanks = written.length - written.trimStart().length
    return this.#range(from + blanks, from + blanks + written.trim().length, level + 1, true)
  }

  #picker(seed: string): ReturnType<typeof picker> {
    if (!this.#pick) {
      spend(this.#text.length >> 3)
      this.#pick = picker(seed, this.#text)
    }
    return this.#pick
  }

  #asWritten(open: number, close: number, level: number): string {
    return `{{${this.#range(open + 2, close, level + 1, false)}}}`
  }

  /** Text without `{{…}}`, in which `<USER>` and similar macros are replaced. @throws ApiError as `expandMacros` */
  #literal(start: number, end: number, isArgument: boolean): string {
    const written = this.#text.slice(start, end)
    const text = isArgument ? written.replaceAll('\\,', ',') : written
    spend(text.length >> 3)
    if (!text.includes('<')) return text
    const nameFor = (name: string) =>
      name.toLowerCase() === 'user' ? this.#environment.user : this.#environment.character
    // The length is checked before the replacement, because a long name in many places would take too much memory.
    let added = 0
    for (const [, name = ''] of text.matchAll(angled)) {
      added += nameFor(name).length
      spend(unitsOfAngled)
    }
    if (added > maxExpansionLength) throw tooLarge()
    return text.replace(angled, (_written, name: string) => nameFor(name))
  }
}

/**
 * Whether a macro with this name may be written like this: with an argument after a colon, after a space, or without an argument.
 */
function fits(name: string, hasColon: boolean, isBare: boolean): boolean {
  if (argumentOptional.has(name)) return true
  if (afterAnything.has(name)) return !isBare
  return afterColon.has(name) ? hasColon : isBare
}

/**
 * A blank, repeated as often as a macro's argument says, by default once; undefined if the argument is not a number.
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

  /** Removes the line breaks at the end of the text so far, and at the beginning of the next piece, for `{{trim}}`. */
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

/** Removes line breaks in a loop, because a regular expression for the end would take quadratic time on runs of line breaks. */
function withoutLineBreaks(text: string, side: 'start' | 'end'): string {
  const isBreak = (at: number) => text[at] === '\n' || text[at] === '\r'
  let start = 0
  let end = text.length
  if (side === 'start') while (isBreak(start)) start++
  else while (end > 0 && isBreak(end - 1)) end--
  return text.slice(start, end)
}

/** The error for too many macros in one prompt. */
function tooManyMacros(): ApiError {
  return new ApiError(
    400,
    'card_too_large',
    `The texts of the card and of the request together have more than ${maxMacros} macros, the limit of one prompt. Use another card, or send fewer macros.`,
    { param: 'character' },
  )
}

/** The error for expanded texts that are too long. */
export function tooLarge(): ApiError {
  return new ApiError(
    400,
    'card_too_large',
    'With their macros expanded, the texts of the card and of the request are too long. Use another card, or send fewer macros.',
    { param: 'character' },
  )
}

const comments = /\{\{\s*(?:\/\/|comment\s*:)/i

/** A text without its comments `{{// …}}`, `{{comment: …}}` and `{{//}}…{{///}}`. Comments are not scanned for lore. */
export function withoutComments(text: string): string {
  if (!text.includes('{{')) return text
  spend(text.length >> 4)
  if (!comments.test(text)) return text
  const pieces: string[] = []
  const pairs = bracePairs(text)
  const { blocks } = conditionsIn(text, pairs)
  let place = 0
  for (const [index, { open, close }] of pairs.entries()) {
    if (index % 100 === 99) spend(1000)
    if (open < place) continue
    if (!/^\s*(?:\/\/|comment\s*:)/i.test(text.slice(open + 2, Math.min(close, open + 64)))) continue
    pieces.push(text.slice(place, open))
    place = (blocks.get(open)?.end.close ?? close) + 2
  }
  return pieces.join('') + text.slice(place)
}
