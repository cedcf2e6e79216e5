import type { Steps } from '../../work.ts'
import type { Clock } from './clock.ts'
import { hashAfter, hashOf } from './seeded-random.ts'

/** The card's own texts that macros stand for. */
export type OwnField = 'description' | 'personality' | 'scenario'

/** The macros that tell of the conversation, in lower case: its newest messages, and the number of the last one from 0 on. */
const chatMacros = { lastmessage: true, lastusermessage: true, lastcharmessage: true, lastmessageid: true }
export type ChatMacro = keyof typeof chatMacros

/** Whether a macro of this name tells of the conversation. */
export function isChatMacro(name: string): name is ChatMacro {
  return Object.hasOwn(chatMacros, name)
}

/** What macros stand for. */
export interface MacroEnvironment {
  readonly character: string
  readonly user: string
  /** What `{{original}}` stands for; without it that is no macro. */
  readonly original?: string
  /** What `{{persona}}` stands for; without it that is told of as unknown, and empty. */
  readonly persona?: string
  /** What the conversation says, for `{{lastMessage}}` and the like; nothing without it. */
  readonly chatText?: (name: ChatMacro) => Steps<string>
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
