import { invalidField } from '../../errors.ts'
import { type Message, textOf } from '../../openai/completion-request.ts'
import { withoutControls } from '../../text.ts'
import { spend } from '../../work/fuel.ts'
import type { Card } from '../cards/card.ts'
import { type Clock, clockAt } from '../macros/clock.ts'
import { maxMacros } from '../macros/macros.ts'
import { seededRandom } from '../macros/seeded-random.ts'
import {
  type CardTexts,
  type ExpansionContext,
  expansionContextOf,
  requestTextsOf,
  seedOf,
  textsOf,
} from './card-texts.ts'
import { type CompositionRequest, defaultUserName, type Persona } from './composition.ts'

/** The greeting of a conversation, and whether it must be inserted into the prompt. */
export interface ActiveGreeting {
  /** The index of the greeting: 0 is `first_mes`. Undefined if the greeting is not known. */
  readonly index: number | undefined
  readonly inserts: boolean
}

/** The value of `greeting` in a request whose conversation has no greeting. */
export const noGreeting = -1

/**
 * Finds the active greeting: the greeting that the request names, else the greeting that the character's first message repeats,
 * else, if a greeting is inserted, the card's first greeting that is not blank. A greeting is inserted if the conversation begins
 * with the user and the character's first message repeats no greeting, unless the request or the operator's setting forbids it.
 * @throws ApiError 400 if the request names a greeting that does not exist
 */
export function activeGreeting(
  texts: CardTexts,
  context: ExpansionContext,
  { greeting, settings, persona }: CompositionRequest,
  conversation: readonly Message[],
): ActiveGreeting {
  const { greetings } = texts.card
  if (greeting !== undefined && greeting >= greetings.length) {
    const last = greetings.length - 1
    throw invalidField('greeting', `is ${greeting}, but the last greeting is ${last}. Send a number up to that`)
  }
  const named = greeting === noGreeting ? undefined : greeting
  const opensWith = conversation[0]?.role
  spend(conversation.length)
  const reply = conversation.find(({ role }) => role === 'assistant')
  const isGreetingSent = named !== undefined && opensWith === 'assistant'
  const spoken = reply && !isGreetingSent ? greetingIndexOf(texts, context, persona, textOf(reply)) : undefined
  const isWanted = greeting !== noGreeting && settings.greeting !== 'never'
  const inserts = isWanted && opensWith === 'user' && spoken === undefined
  return { index: named ?? spoken ?? (inserts ? firstGreeting(texts.card) : undefined), inserts }
}

/** The index of the first greeting that is not blank, else 0. Some cards have an empty `first_mes` and alternate greetings. */
function firstGreeting({ greetings }: Card): number {
  return Math.max(
    0,
    greetings.findIndex((greeting) => greeting.trim() !== ''),
  )
}

/** A greeting as the character's first message; null for an empty greeting. */
export function greetingMessage(texts: CardTexts, context: ExpansionContext, index: number): Message | null {
  const text = greetingText(texts, context, index)
  return text === '' ? null : { role: 'assistant', content: text }
}

/** Greetings have draws of their own (`greetingContext`). */
const noDraws = () => 0

/** Units of work for each greeting, besides its macros. */
const unitsOfShown = 300

/**
 * Passes the greetings of a card to `onText` one by one, as they are in prompts for the persona's user.
 * @param request the conversation id of the later chat request, if any, and the time that greetings show
 */
export function shownGreetings(
  card: Card,
  persona: Pick<Persona, 'name' | 'userName' | 'digest'>,
  request: Pick<CompositionRequest, 'conversationId' | 'now'>,
  onText: (index: number, text: string) => void,
): void {
  // The texts have their own cache, so that they do not displace the cached texts of prompts.
  const texts = requestTextsOf(card, persona, { systemPrompt: '' }, true)
  for (const [index, raw] of card.greetings.entries()) {
    spend(unitsOfShown + (raw.length >> 4))
    onText(index, greetingText(texts, expansionContextOf(persona, request, noDraws), index))
  }
}

/**
 * A greeting with its macros expanded. Its random draws depend only on the card, the greeting's index and the conversation's id,
 * so that a client and each prompt of the conversation get the same text.
 */
function greetingText(texts: CardTexts, context: ExpansionContext, index: number): string {
  return texts.expand(keyOf(index), texts.card.greetings[index] ?? '', greetingContext(context, index))
}

function keyOf(index: number): string {
  return `greeting/${index}`
}

/** The context of one greeting, with its own random draws. Texts of the card that the greeting's macros insert use them too. */
function greetingContext(context: ExpansionContext, index: number): ExpansionContext {
  return { ...context, random: seededRandom(`${context.seed}/greeting/${index}`), ownTexts: new Map() }
}

/** Units of work to compare a greeting, besides its characters. */
const unitsOfGreeting = 120
/** The most characters of a greeting's beginning that are compared before its macros are expanded. */
const maxHeadLength = 200
/** Stands for any time in a greeting that is compared, because time has passed since the greeting was sent. */
const anyTime = '\uE000'
/** A greeting with this many times or more repeats no text. There are at most as many macros. */
const maxTimes = maxMacros + 2
/** The most characters of a time, such as "Wednesday, September 23rd 2026, 12:24:29 pm", with some words that its format adds. */
const maxTimeLength = 100

/**
 * The index of the greeting that a text repeats, literally or with its macros expanded; undefined for none. The client may have
 * got the greeting from `GET /characters/{name}` without a user name and a conversation id.
 */
function greetingIndexOf(
  texts: CardTexts,
  context: ExpansionContext,
  persona: Persona,
  text: string,
): number | undefined {
  const { greetings } = texts.card
  const said = withoutControls(text).trim()
  if (said === '') return undefined
  const heads = headsOf(greetings)
  spend(text.length >> 3)
  for (const [index, greeting] of greetings.entries()) {
    spend(unitsOfGreeting + (greeting.length >> 4))
    heads[index] ??= headOf(greeting)
    if (said.startsWith(heads[index]) && isGreeting(texts, context, persona, index, said)) return index
  }
  return undefined
}

/** Whether a text is this greeting, literally or with its macros expanded. */
function isGreeting(
  texts: CardTexts,
  context: ExpansionContext,
  persona: Persona,
  index: number,
  said: string,
): boolean {
  const { card, settings } = texts
  if (withoutControls(card.greetings[index] ?? '').trim() === said) return true
  const asShown = textsOf(card, { ...persona, userName: defaultUserName }, settings)
  const contexts = [context, { ...context, seed: seedOf(persona) }]
  for (const own of new Set([texts, asShown])) {
    for (const each of contexts) {
      spend(unitsOfShown)
      if (isSame(comparedText(own, each, index), said)) return true
    }
  }
  return false
}

/** The literal beginnings of each card's greetings, as far as they were needed. */
const headsCache = new WeakMap<readonly string[], (string | undefined)[]>()

function headsOf(greetings: readonly string[]): (string | undefined)[] {
  const known = headsCache.get(greetings)
  if (known) return known
  const made: (string | undefined)[] = []
  headsCache.set(greetings, made)
  return made
}

/** The literal beginning of a greeting, before its first macro. */
function headOf(greeting: string): string {
  const cut = greeting.slice(0, maxHeadLength)
  // The cut may be inside a surrogate pair. `withoutControls` would replace the first half by U+FFFD, which no text would match.
  const start = /[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut
  const macro = start.search(/\{\{|</)
  return withoutControls(macro === -1 ? start : start.slice(0, macro)).trim()
}

/** A greeting for comparisons, with `anyTime` in place of times. Its macros do not count towards the limits of the prompt. */
function comparedText(texts: CardTexts, context: ExpansionContext, index: number): string {
  const own = {
    ...context,
    unknown: new Set<string>(),
    counter: { macros: 0, characters: 0 },
    clock: clockOfAnyTime(context.now),
  }
  return greetingText(texts, own, index)
}

function clockOfAnyTime(now: Date): Clock {
  const { timeAt, format } = clockAt(now)
  const hidden = (value: string | undefined) => (value === undefined ? undefined : anyTime)
  return { value: () => anyTime, timeAt: (offset) => hidden(timeAt(offset)), format: (form) => hidden(format(form)) }
}

/** Whether a text is a greeting, with any times in the places of `anyTime`. */
function isSame(greeting: string, said: string): boolean {
  if (greeting === '') return false
  const [first = '', ...rest] = greeting.split(anyTime, maxTimes)
  if (rest.length === 0) return greeting === said
  if (rest.length === maxTimes - 1) return false
  if (first + rest.join('') === '' || !said.startsWith(first)) return false
  let place = first.length
  for (const [index, piece] of rest.entries()) {
    // The search is limited to the longest time: a message may have millions of characters, and a card thousands of greetings.
    const within = said.slice(place + 1, place + maxTimeLength + piece.length)
    const next = index === rest.length - 1 ? said.length - piece.length : place + 1 + within.indexOf(piece)
    if (next <= place || next - place > maxTimeLength || !said.startsWith(piece, next)) return false
    place = next + piece.length
  }
  return true
}
