import { hashOf } from './chance.ts'

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
  readonly now?: () => Date
  /** The card's own texts, expanded: `{{description}}`, `{{personality}}`, `{{scenario}}`. */
  readonly textOf?: (field: 'description' | 'personality' | 'scenario') => string
  /** Whether `{{hidden_key:A}}` shows its text, as it does to the scan for lore. */
  readonly showsHiddenKeys?: boolean
  /** Told of each macro that is not known, by its name. */
  readonly onUnknown?: (name: string) => void
  /** Told when the text could come out differently for the same names. */
  readonly onVarying?: () => void
}

const mostDice = 1000
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

/** Which of so many items a `{{pick}}` takes: always the same for the same seed, text and place. */
export function pickedIndex(count: number, seed: string, text: string, offset: number): number {
  return hashOf(`${seed}/${offset}/${hashOf(text)}`) % count
}

/** A text backwards, by code points. */
export function reversed(text: string): string {
  return [...text].reverse().join('')
}

/** Macros without arguments that tell the time, in the zone of the service. */
export const clocks: ReadonlyMap<string, (now: Date) => string> = new Map([
  ['time', (now) => now.toLocaleTimeString('en-US', { hour: 'numeric', minute: '2-digit' })],
  ['date', (now) => now.toLocaleDateString('en-US', { dateStyle: 'long' })],
  ['weekday', (now) => now.toLocaleDateString('en-US', { weekday: 'long' })],
  ['isotime', (now) => `${two(now.getHours())}:${two(now.getMinutes())}`],
  ['isodate', (now) => `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`],
])

function two(number: number): string {
  return String(number).padStart(2, '0')
}
