import type { Steps } from '../../work.ts'
import { hashAfter, hashOf } from './seeded-random.ts'

/** The card's own texts that macros stand for. */
export type OwnField = 'description' | 'personality' | 'scenario'

/** What macros stand for. */
export interface MacroEnvironment {
  readonly character: string
  readonly user: string
  /** What `{{original}}` stands for; without it that is no macro. */
  readonly original?: string
  /** What `{{pick}}` turns on besides its text and place: the card, and the conversation where there is one. */
  readonly seed?: string
  /** Draws like `Math.random`. */
  readonly random?: () => number
  /** What `{{time}}` and the like read; the time of the expansion without it. */
  readonly clock?: Clock
  /** The card's own texts, expanded: `{{description}}`, `{{personality}}`, `{{scenario}}`. */
  readonly textOf?: (field: OwnField) => Steps<string>
  /** Whether `{{hidden_key:A}}` shows its text, as it does to the scan for lore. */
  readonly showsHiddenKeys?: boolean
  /** Counts for all texts of one prompt, each text once; without it they are counted for this text alone. */
  readonly counter?: MacroCounter
  /** Told of each macro that is not known, by its name. */
  readonly onUnknown?: (name: string) => void
  /** Told when the text could come out differently for the same names. */
  readonly onVarying?: () => void
}

/** How many macros have been expanded, and to how many characters. */
export interface MacroCounter {
  macros: number
  characters: number
}

/** Dice that one macro may throw. */
export const mostDice = 1000
const mostSides = 1e9

/** The sum of some dice (`6`, `d6`, `2d6`); empty when it is no such thing. */
export function roll(dice: string, random: () => number): string {
  const match = /^(?:(\d{0,4})d)?(\d{1,10})$/i.exec(dice.trim())
  const count = Number(match?.[1] || 1)
  const sides = Number(match?.[2])
  if (!match || count < 1 || count > mostDice || !(sides >= 1 && sides <= mostSides)) return ''
  let sum = 0
  for (let die = 0; die < count; die++) sum += 1 + Math.floor(random() * sides)
  return String(sum)
}

/**
 * Tells which of so many items the `{{pick}}` at a place of a text takes: always the same for the same seed, text and
 * place. The text is read once, however many stand in it.
 */
export function picker(seed: string, text: string): (count: number, place: number) => number {
  const hashed = hashAfter(`${seed}/`)
  const ending = `/${hashOf(text)}`
  return (count, place) => hashed(`${place}${ending}`) % count
}

/** Characters that are turned round in one step. */
const reversedPerStep = 4096

/** A text backwards, by code points. */
export function* reversed(text: string): Steps<string> {
  const pieces: string[] = []
  for (let end = text.length; end > 0; ) {
    let start = Math.max(0, end - reversedPerStep)
    // Never inside a character.
    if (/^[\uDC00-\uDFFF]/.test(text.slice(start, start + 1))) start = Math.max(0, start - 1)
    pieces.push([...text.slice(start, end)].reverse().join(''))
    yield (end - start) * 2
    end = start
  }
  return pieces.join('')
}

/** Macros without arguments that tell the time, in the zone of the service. */
const clocks = {
  time: formatter({ hour: 'numeric', minute: '2-digit' }),
  date: formatter({ dateStyle: 'long' }),
  weekday: formatter({ weekday: 'long' }),
  isotime: (now: Date) => `${two(now.getHours())}:${two(now.getMinutes())}`,
  isodate: (now: Date) => `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`,
}
type ClockName = keyof typeof clocks

/** Tells the time of one moment, in the form of a macro. */
export type Clock = (name: ClockName) => string

/** Whether a macro of this name tells the time. */
export function isClock(name: string): name is ClockName {
  return Object.hasOwn(clocks, name)
}

/** Reads each clock once, however often it is asked: one belongs to one prompt. */
export function clockAt(now: Date): Clock {
  const read = new Map<ClockName, string>()
  return (name) => {
    const known = read.get(name)
    if (known !== undefined) return known
    const made = clocks[name](now)
    read.set(name, made)
    return made
  }
}

/** Writes dates in one form. What writes them is made once: it takes 35 kB outside the heap, and most of the time. */
function formatter(form: Intl.DateTimeFormatOptions): (now: Date) => string {
  let made: Intl.DateTimeFormat | undefined
  return (now) => {
    made ??= new Intl.DateTimeFormat('en-US', form)
    return made.format(now)
  }
}

function two(number: number): string {
  return String(number).padStart(2, '0')
}
