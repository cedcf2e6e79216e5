import type { Message } from '../../openai/completion-request.ts'
import type { Steps } from '../../work.ts'
import type { DropReason } from '../lore/book-scan.ts'
import type { Role } from '../lore/decorators.ts'
import type { LoreEntry } from '../lore/entry.ts'
import type { Lorebook } from '../lore/lorebook.ts'
import type { Persona, PromptSettings } from './settings.ts'

/** What a request brings into its prompt besides its messages; none of it is kept. */
export interface RequestTexts {
  /** What the user is, macros unexpanded. */
  readonly persona?: string
  readonly authorNote?: AuthorNote
  readonly books: readonly Lorebook[]
  /** Regular expressions of the books that never match here. */
  readonly refusedRegexes?: readonly string[]
  /** Whether macros in these texts, and keys of these books, may look at the card's own texts. */
  readonly seesCard: boolean
}

/** A text of the user's that is to stand so many messages before the end. */
export interface AuthorNote {
  readonly text: string
  readonly depth: number
  readonly role: Role
}

/** All that a prompt is composed of. */
export interface CompositionRequest {
  readonly persona: Persona
  readonly messages: readonly Message[]
  readonly settings: PromptSettings
  /** 0 is `first_mes`, n the nth of `alternate_greetings`; -1 for none. */
  readonly greeting?: number | undefined
  /** Seeds `{{pick}}`, the greeting and the draws of groups, together with the card. */
  readonly conversationId?: string | undefined
  readonly texts?: RequestTexts | undefined
  /** Lorebooks for all characters, after the character's own and the request's. */
  readonly worldBooks?: readonly Lorebook[]
  /** Tokens that the model takes, the reply included; unknown without it. */
  readonly contextWindow?: number | undefined
  /** Tokens to be left for the reply. */
  readonly replyTokens?: number
  readonly overflow?: 'drop-oldest' | undefined
  /** Tokens of a text; only asked where something may not fit. */
  readonly countSteps?: ((text: string) => Steps<number>) | undefined
  /** Draws like `Math.random`. */
  readonly random?: () => number
  readonly now?: Date
}

/** One part of a prompt: a text of the card's or the operator's, or messages. */
export interface Section {
  readonly section: SectionName
  readonly text?: string
  readonly messages?: readonly Message[]
}

export type SectionName =
  | 'system_prompt'
  | 'request_system'
  | 'lore_before_char'
  | 'persona'
  | 'description'
  | 'personality'
  | 'scenario'
  | 'lore_after_char'
  | 'lore_examples'
  | 'examples'
  | 'greeting'
  | 'conversation'
  | 'lore_at_depth'
  | 'author_note'
  | 'depth_note'
  | 'post_history'
  | 'prefill'

/** An entry that fired, or that would have and was left out. */
export interface LoreReport {
  readonly entry: string
  readonly book: string
  readonly fired: boolean
  /** What it was found by; none for one that needs no key. */
  readonly keys?: readonly string[]
  readonly dropped?: DropReason
  /** Its body as it was sent, or would have been. */
  readonly text: string
  /** The entry as its book has it. */
  readonly source: LoreEntry
}

/** How much did not fit. */
export interface DroppedCounts {
  readonly lore: number
  readonly examples: number
  readonly messages: number
}

/** What the model is told, and how it came to be that. */
export interface Composition {
  readonly messages: readonly Message[]
  readonly sections: readonly Section[]
  readonly lore: readonly LoreReport[]
  readonly dropped: DroppedCounts
  readonly unknownMacros: readonly string[]
}

/** Thrown where it takes a token counter to go on, and there is none: so nobody loads one before it is needed. */
export class CountNeeded extends Error {
  override readonly name = 'CountNeeded'
}
