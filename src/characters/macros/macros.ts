import { ApiError } from '../../errors.ts'
import { beginningOf } from '../../text.ts'
import type { Steps } from '../../work.ts'
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
 * those of real macros: a search over millions of letters would be one step.
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

/** The same as `hasMacro`, in steps: a card's text may have millions of characters. */
export function* hasMacroInSteps(text: string): Steps<boolean> {
  for (let start = 0; start < text.length; start += maxLiteralLength) {
    // The pieces overlap, so that each macro begins completely in one of them.
    if (hasMacro(text.slice(start, start + maxLiteralLength + maxOpenAngled))) return true
    if (start + maxLiteralLength < text.length) yield maxLiteralLength >> 3
  }
  return false
}

/** The most characters of all texts that are expanded for one prompt, even if they are not sent. */
export const maxExpandedLength = 32 * maxExpansionLength
/** The most characters of text without `{{…}}` that one step expands. */
const maxLiteralLength = 64 * 1024
/** The length of the longest match of `angled` without its last character. */
const maxOpenAngled = '<charifnotgroup'.length
/** Units of work for one macro, and units after which a step ends. */
const unitsOfMacro = 60
const unitsOfStep = 1000

/**
 * Replaces macros by their values, in one pass: inserted values are not expanded again, so that a name cannot inject a macro.
 * Unknown macros stay as written. The time is linear in the length of the text.
 * @throws ApiError 400 `card_too_large` if the result is longer than `maxExpansionLength`, or if all texts of one counter have
 *   more than `maxMacros` macros or `maxExpandedLength` characters together
 */
export function* expandMacros(text: string, environment: MacroEnvironment): Steps<string> {
  if (!(yield* hasMacroInSteps(text))) return text
  const { counter = { macros: 0, characters: 0 } } = environment
  const pairs = yield* bracePairs(text, maxMacros - counter.macros + 1)
  counter.macros += pairs.length
  if (counter.macros > maxMacros) throw tooManyMacros()
  const expanded = yield* new Expansion(text, pairs, environment).whole()
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
  /** Units of work since the last step. */
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

  /** Counts work, and ends the step after `unitsOfStep`. */
  *#spend(units: number): Steps<void> {
    this.#units += units
    if (this.#units < unitsOfStep) return
    yield this.#units
    this.#units = 0
  }

  /** Expands the text from `start` to `end`. @param isArgument whether `\,` is an escaped comma */
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

  /**
   * The value of one macro; null for `{{trim}}`. An unknown macro stays as written, but in the text of a condition it is empty.
   */
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
    this.#reportUnknown(open + 2, close)
    return this.#conditionDepth > 0 ? '' : yield* this.#asWritten(open, close, level)
  }

  /** Reports an unknown macro by the text in the place of its name. */
  #reportUnknown(start: number, end: number): void {
    anyName.lastIndex = start
    const name = anyName.exec(this.#text)?.[1]
    if (name === undefined || anyName.lastIndex > end) return
    this.#environment.onUnknown?.(beginningOf(name.toLowerCase(), maxNameLength))
  }

  /** The value of a known macro; null for `{{trim}}`, and undefined for an unknown macro. */
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
        return yield* this.#inlineIf(start, end, level)
      default:
        return yield* this.#clockOrChatValue(name, start, end, level)
    }
  }

  /** The value of a macro for the time or the conversation; undefined for another macro. */
  *#clockOrChatValue(name: string, start: number, end: number, level: number): Steps<string | undefined> {
    if (isChatMacro(name)) {
      this.#environment.onVarying?.()
      return this.#environment.chatText ? yield* this.#environment.chatText(name) : ''
    }
    if (name === 'datetimeformat') return this.#now().format(yield* this.#range(start, end, level + 1, true))
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

  /**
   * Whether a condition is true. If the text of the condition is only the name of a macro, the value of this macro decides.
   * Otherwise, the expanded text decides.
   */
  *#isMet(start: number, end: number, level: number): Steps<boolean> {
    negation.lastIndex = start
    const isNegated = negation.exec(this.#text)?.[1] !== undefined
    const from = negation.lastIndex
    const written = end - from <= maxNameLength ? this.#text.slice(from, end).trim() : ''
    return isTrue(yield* this.#conditionText(written, from, end, level)) !== isNegated
  }

  *#conditionText(written: string, start: number, end: number, level: number): Steps<string> {
    if (variable.test(written)) {
      // The service has no variables; an unset variable is empty.
      this.#environment.onUnknown?.(written)
      return ''
    }
    if (bareName.test(written)) {
      const name = written.toLowerCase()
      const known = fits(name, false, true) ? yield* this.#known(name, end, end, level) : undefined
      return known === undefined ? written : (known ?? '')
    }
    this.#conditionDepth += 1
    const value = yield* this.#range(start, end, level + 1, false)
    this.#conditionDepth -= 1
    return value
  }

  *#branch(start: number, end: number, level: number, keepsBlanks: boolean): Steps<string> {
    const text = yield* this.#range(start, end, level + 1, false)
    if (keepsBlanks) return text
    yield* this.#spend(text.length)
    return yield* withoutIndent(text)
  }

  /** The value of `{{if::condition::content}}`; undefined without content. */
  *#inlineIf(start: number, end: number, level: number): Steps<string | undefined> {
    const [first] = (yield* separatorsIn(this.#text, this.#pairs, start, end)).colons
    if (first === undefined) return undefined
    const otherwise = this.#conditions?.inner.get(end)
    if (yield* this.#isMet(start, first, level)) {
      return yield* this.#branch(first + 2, otherwise?.open ?? end, level, false)
    }
    return otherwise ? yield* this.#branch(otherwise.close + 2, end, level, false) : ''
  }

  /** One of the values of `{{random}}` or `{{pick}}`; only the chosen value is expanded. */
  *#chosen(name: 'random' | 'pick', start: number, end: number, level: number): Steps<string> {
    const { seed = '', random = Math.random, onVarying } = this.#environment
    onVarying?.()
    const { commas, colons } = yield* separatorsIn(this.#text, this.#pairs, start, end)
    const [separators, width] = colons.length > 0 ? [colons, 2] : [commas, 1]
    const count = separators.length + 1
    const index = name === 'random' ? Math.floor(random() * count) : this.#picker(seed)(count, start)
    const before = separators[index - 1]
    const from = before === undefined ? start : before + width
    const to = separators[index] ?? end
    if (width === 2) return yield* this.#range(from, to, level + 1, true)
    const written = this.#text.slice(from, to)
    const blanks = written.length - written.trimStart().length
    return yield* this.#range(from + blanks, from + blanks + written.trim().length, level + 1, true)
  }

  #picker(seed: string): ReturnType<typeof picker> {
    if (!this.#pick) {
      this.#units += this.#text.length >> 3
      this.#pick = picker(seed, this.#text)
    }
    return this.#pick
  }

  *#asWritten(open: number, close: number, level: number): Steps<string> {
    return `{{${yield* this.#range(open + 2, close, level + 1, false)}}}`
  }

  /** Adds text without `{{…}}`. A long text is added in parts. */
  *#addLiteral(pieces: Pieces, start: number, end: number, isArgument: boolean): Steps<void> {
    for (let from = start; from < end; ) {
      const to = this.#literalEnd(from, end)
      const piece = this.#literal(from, to, isArgument)
      pieces.add(piece)
      yield* this.#spend((to - from + piece.length) >> 3)
      from = to
    }
  }

  /**
   * The end of the next part of a text without `{{…}}`. It is never inside `<USER>` or another match of `angled`, nor between `\`
   * and a comma.
   */
  #literalEnd(start: number, end: number): number {
    const cut = start + maxLiteralLength
    if (cut >= end) return end
    const before = cut - maxOpenAngled
    const mark = /[<\\][^<\\]*$/.exec(this.#text.slice(before, cut))
    return mark ? before + mark.index : cut
  }

  /** Text without `{{…}}`, in which `<USER>` and similar macros are replaced. */
  #literal(start: number, end: number, isArgument: boolean): string {
    const written = this.#text.slice(start, end)
    const text = isArgument ? written.replaceAll('\\,', ',') : written
    if (!text.includes('<')) return text
    const { character, user } = this.#environment
    // The length is checked before the replacement, because a long name in many places would take too much memory.
    const maxAdded = (text.match(angled)?.length ?? 0) * Math.max(character.length, user.length)
    if (maxAdded > maxExpansionLength) throw tooLarge()
    return text.replace(angled, (_written, name: string) => (name.toLowerCase() === 'user' ? user : character))
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
