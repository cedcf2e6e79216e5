import { spend } from '../../work/fuel.ts'
import type { Clock } from './clock.ts'
import { hashAfter, hashOf } from './seeded-random.ts'

/** The card's own texts that macros can insert. */
export type OwnField = 'description' | 'personality' | 'scenario'

/** The macros for the conversation, in lower case: its newest messages, and the index of the last message (from 0). */
const chatMacros = { lastmessage: true, lastusermessage: true, lastcharmessage: true, lastmessageid: true }
export type ChatMacro = keyof typeof chatMacros

/** Whether a macro's value comes from the conversation. */
export function isChatMacro(name: string): name is ChatMacro {
  return Object.hasOwn(chatMacros, name)
}

/** The values of macros, and callbacks of their expansion. */
export interface MacroEnvironment {
  readonly character: string
  readonly user: string
  /** The value of `{{original}}`. If it is absent, `{{original}}` is an unknown macro. */
  readonly original?: string
  /** The value of `{{persona}}`. If it is absent, the macro is empty and reported as unknown. */
  readonly persona?: string
  /** The value of `{{lastMessage}}` and similar macros, which by default are empty. */
  readonly chatText?: (name: ChatMacro) => string
  /**
   * The seed of `{{pick}}`, from the card and the conversation. The text that contains the macro, and the macro's position in
   * this text, are added to the seed.
   */
  readonly seed?: string
  /** Draws like `Math.random`. */
  readonly random?: () => number
  /** The clock of `{{time}}` and similar macros; by default the time of the expansion. */
  readonly clock?: Clock
  /** The values of `{{description}}`, `{{personality}}` and `{{scenario}}`, which by default are empty. */
  readonly textOf?: (field: OwnField) => string
  /** Whether `{{hidden_key:A}}` expands to `A`, as in the scan for lore. By default the macro is empty. */
  readonly showsHiddenKeys?: boolean
  /** Counts the macros and characters of all texts that are expanded for one prompt; by default only of this text. */
  readonly counter?: MacroCounter
  /** Called with the name of each unknown macro. */
  readonly onUnknown?: (name: string) => void
  /** Called if the expanded text may be different in another request with the same names, so that it cannot be cached. */
  readonly onVarying?: () => void
}

/** The number of macros, and the number of characters of the expanded texts. */
export interface MacroCounter {
  macros: number
  characters: number
}

/**
 * A function that chooses one of `count` items for the `{{pick}}` at a place of the text: always the same item for the same seed,
 * text and place. The text is hashed only once for all `{{pick}}` in it.
 */
export function picker(seed: string, text: string): (count: number, place: number) => number {
  const hashed = hashAfter(`${seed}/`)
  const ending = `/${hashOf(text)}`
  return (count, place) => hashed(`${place}${ending}`) % count
}

/** A text in reverse order of its code points. */
export function reversed(text: string): string {
  spend(text.length * 2)
  return [...text].reverse().join('')
}
