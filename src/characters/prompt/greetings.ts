import { invalidField } from '../../errors.ts'
import { type Message, textOf } from '../../openai/completion-request.ts'
import { withoutControls, withoutControlsInSteps } from '../../text.ts'
import type { Steps } from '../../work.ts'
import type { Card } from '../cards/card.ts'
import { type Clock, clockAt } from '../macros/clock.ts'
import { seededRandom } from '../macros/seeded-random.ts'
import { type CardTexts, Keeper, type Run, runOf, textsOf } from './card-texts.ts'
import type { CompositionRequest } from './composition.ts'
import { made } from './segments.ts'
import { type Persona, unnamedUser } from './settings.ts'

/** Which greeting the conversation has, and whether it is still to be said. */
export interface ActiveGreeting {
  /** 0 is `first_mes`. Undefined where it cannot be told. */
  readonly index: number | undefined
  readonly inserts: boolean
}

/** The number by which a request says that its conversation gets no greeting. */
export const noGreeting = -1

const keptGreetings = new Keeper<Message>(32)

/**
 * Finds out which greeting is active: the one that the request names, else the one that the character's first message is,
 * else the first that the card has, where it is to be said. It is not said again where the conversation has it, and not in
 * front of messages that something must have come before.
 * @throws ApiError 400 for a greeting that there is not
 */
export function* activeGreeting(
  texts: CardTexts,
  run: Run,
  { greeting, settings, persona }: CompositionRequest,
  conversation: readonly Message[],
): Steps<ActiveGreeting> {
  const { greetings } = texts.card
  if (greeting !== undefined && greeting >= greetings.length) {
    const last = greetings.length - 1
    throw invalidField('greeting', `is ${greeting}, but the last greeting is ${last}. Send a number up to that`)
  }
  const named = greeting === noGreeting ? undefined : greeting
  const opensWith = conversation[0]?.role
  yield conversation.length
  const reply = conversation.find(({ role }) => role === 'assistant')
  const isTold = named !== undefined && opensWith === 'assistant'
  const spoken = reply && !isTold ? yield* spokenGreeting(texts, run, persona, textOf(reply)) : undefined
  const isWanted = greeting !== noGreeting && settings.greeting !== 'never'
  const inserts = isWanted && opensWith === 'user' && spoken === undefined
  return { index: named ?? spoken ?? (inserts ? firstGreeting(texts.card) : undefined), inserts }
}

/** The first greeting that has words: some cards leave `first_mes` empty and have alternates. */
function firstGreeting({ greetings }: Card): number {
  return Math.max(
    0,
    greetings.findIndex((greeting) => greeting.trim() !== ''),
  )
}

/** A greeting as the character's first message; null for an empty one. */
export function* greetingMessage(texts: CardTexts, run: Run, index: number): Steps<Message | null> {
  const text = texts.kept(keyOf(index), run) ?? (yield* greetingText(texts, run, index))
  if (text === '') return null
  const make = () => ({ role: 'assistant' as const, content: text })
  if (!texts.isKept(keyOf(index))) return make()
  return texts.known(keptGreetings, index, run) ?? (yield* texts.keep(keptGreetings, index, run, () => made(make)))
}

/** Units of work of one greeting, beside its macros. */
const unitsOfShown = 20

/**
 * The greetings of a card one by one, as prompts have them.
 * @param conversationId what the request for a prompt will send, if anything
 */
export function* shownGreetings(
  persona: Persona & { readonly card: Card },
  conversationId: string | undefined,
  onText: (index: number, text: string) => void,
): Steps<void> {
  const { card } = persona
  // Settings of its own: what is kept of the card for prompts is not crowded out by those that only look at it.
  const texts = textsOf(card, { ...persona, userName: unnamedUser }, { systemPrompt: '' })
  for (const [index, raw] of card.greetings.entries()) {
    yield unitsOfShown + (raw.length >> 4)
    onText(index, yield* greetingText(texts, runOf(persona, { conversationId }), index))
  }
}

/**
 * A greeting with its macros expanded. What it draws by lot turns on the card, the greeting's index and the conversation's
 * id alone, so that it is one text wherever it is shown, and on every turn.
 */
function greetingText(texts: CardTexts, run: Run, index: number): Steps<string> {
  return texts.expand(keyOf(index), texts.card.greetings[index] ?? '', greetingRun(run, index))
}

function keyOf(index: number): string {
  return `greeting/${index}`
}

/** The run of one greeting: with draws of its own, and with none of the card's texts as another place has drawn them. */
function greetingRun(run: Run, index: number): Run {
  return { ...run, random: seededRandom(`${run.seed}/greeting/${index}`), ownTexts: new Map() }
}

/** Units of work of comparing a greeting, beside its characters. */
const unitsOfGreeting = 120
/** Units after which a step ends. */
const unitsOfStep = 2000
/** Characters of a greeting's beginning that are compared before its macros are expanded. */
const maxHeadLength = 200
/** Stands for any time while greetings are compared: the clock has gone on since one was said. */
const anyTime = '\uE000'
/** Characters that a time has at most: "Wednesday, September 23rd 2026, 12:24:29 pm", and some words in its format. */
const maxTimeLength = 100

/**
 * The greeting that a text is: as it stands in the card, or with its macros expanded. The client may have taken it from
 * `GET /characters/{name}`, where the user is called "User" and the conversation may have had no id.
 */
function* spokenGreeting(texts: CardTexts, run: Run, persona: Persona, text: string): Steps<number | undefined> {
  const { greetings } = texts.card
  const said = (yield* withoutControlsInSteps(text)).trim()
  if (said === '') return undefined
  const heads = headsOf(greetings)
  let units = text.length >> 3
  for (const [index, greeting] of greetings.entries()) {
    units += unitsOfGreeting + (greeting.length >> 4)
    heads[index] ??= headOf(greeting)
    if (said.startsWith(heads[index]) && (yield* isGreeting(texts, run, persona, index, said))) return index
    if (units < unitsOfStep) continue
    yield units
    units = 0
  }
  yield units
  return undefined
}

/** Whether a text is one of the greetings. */
function* isGreeting(texts: CardTexts, run: Run, persona: Persona, index: number, said: string): Steps<boolean> {
  const { card, settings } = texts
  if ((yield* withoutControlsInSteps(card.greetings[index] ?? '')).trim() === said) return true
  const asShown = textsOf(card, { ...persona, userName: unnamedUser }, settings)
  const runs = [run, { ...run, seed: runOf(persona, {}).seed }]
  for (const own of new Set([texts, asShown])) {
    for (const each of runs) if (isSame(yield* comparedText(own, each, index), said)) return true
  }
  return false
}

/** What the greetings of each card begin with, as far as it was asked for. */
const keptHeads = new WeakMap<readonly string[], (string | undefined)[]>()

function headsOf(greetings: readonly string[]): (string | undefined)[] {
  const known = keptHeads.get(greetings)
  if (known) return known
  const made: (string | undefined)[] = []
  keptHeads.set(greetings, made)
  return made
}

/** What every expansion of a greeting begins with, as far as that is looked at. */
function headOf(greeting: string): string {
  const start = greeting.slice(0, maxHeadLength)
  const macro = start.search(/\{\{|</)
  return withoutControls(macro === -1 ? start : start.slice(0, macro)).trim()
}

/** A greeting to be compared with: its macros are no part of the prompt, and it holds for any time. */
function comparedText(texts: CardTexts, run: Run, index: number): Steps<string> {
  const own = {
    ...run,
    unknown: new Set<string>(),
    counter: { macros: 0, characters: 0 },
    clock: clockOfAnyTime(run.now),
  }
  return greetingText(texts, own, index)
}

function clockOfAnyTime(now: Date): Clock {
  const { timeAt, format } = clockAt(now)
  const hidden = (told: string | undefined) => (told === undefined ? undefined : anyTime)
  return { tell: () => anyTime, timeAt: (offset) => hidden(timeAt(offset)), format: (form) => hidden(format(form)) }
}

/** Whether a text is a greeting, whatever the times in it. */
function isSame(greeting: string, said: string): boolean {
  if (greeting === '') return false
  const [first = '', ...rest] = greeting.split(anyTime)
  if (rest.length === 0) return greeting === said
  if (first + rest.join('') === '' || !said.startsWith(first)) return false
  let place = first.length
  for (const [index, piece] of rest.entries()) {
    // Only as far as a time goes: a message may have millions of characters, and a card thousands of greetings.
    const within = said.slice(place + 1, place + maxTimeLength + piece.length)
    const next = index === rest.length - 1 ? said.length - piece.length : place + 1 + within.indexOf(piece)
    if (next <= place || next - place > maxTimeLength || !said.startsWith(piece, next)) return false
    place = next + piece.length
  }
  return true
}
