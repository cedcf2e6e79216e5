import type { Message } from '../../openai/completion-request.ts'
import type { Steps } from '../../work.ts'
import type { DropReason } from '../lore/book-scan.ts'
import type { Role } from '../lore/decorators.ts'
import type { LoreEntry } from '../lore/entry.ts'
import type { Lorebook } from '../lore/lorebook.ts'
import type { Persona, PromptSettings } from './settings.ts'

/** The texts of a request besides its messages; the service does not store them. */
export interface RequestTexts {
  /** The user's persona, with unexpanded macros. */
  readonly persona?: string
  readonly authorNote?: AuthorNote
  readonly books: readonly Lorebook[]
  /** Regular expressions of the books that the engine refuses; they match nothing. */
  readonly refusedRegexes?: readonly string[]
  /** Whether macros in these texts, and keys of these books, may read the card's own texts. */
  readonly seesCard: boolean
}

/** A text of the user, placed `depth` messages before the end. */
export interface AuthorNote {
  readonly text: string
  readonly depth: number
  readonly role: Role
}

/** The input of `compose`. */
export interface CompositionRequest {
  readonly persona: Persona
  readonly messages: readonly Message[]
  readonly settings: PromptSettings
  /** 0 is `first_mes`, n the nth of `alternate_greetings`; -1 for none. */
  readonly greeting?: number | undefined
  /** The seed of `{{pick}}`, the greeting and the draws of groups, together with the card. */
  readonly conversationId?: string | undefined
  readonly texts?: RequestTexts | undefined
  /** Lorebooks for all characters, after the character's own and the request's. */
  readonly worldBooks?: readonly Lorebook[]
  /** Tokens of the model's context, with the reply; undefined when it is not known. */
  readonly contextWindow?: number | undefined
  /** Tokens reserved for the reply. */
  readonly replyTokens?: number
  readonly overflow?: 'drop-oldest' | undefined
  /** Counts the tokens of a text. It is called only if the prompt or the lore of a book may exceed its limit of tokens. */
  readonly countSteps?: ((text: string) => Steps<number>) | undefined
  /** Draws like `Math.random`. */
  readonly random?: () => number
  readonly now?: Date
}

/** One section of a prompt: a text or messages. */
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

/** An entry that fired, or that matched and was dropped. */
export interface LoreReport {
  readonly entry: string
  readonly book: string
  readonly fired: boolean
  /** The keys that matched; missing for an entry that needs no key. */
  readonly keys?: readonly string[]
  readonly dropped?: DropReason
  /** The expanded body, sent or not. */
  readonly text: string
  /** The entry of the book. */
  readonly source: LoreEntry
}

/** The numbers of parts that were dropped from a prompt. */
export interface DroppedCounts {
  readonly lore: number
  readonly examples: number
  readonly messages: number
}

/** A composed prompt, with the report for a receipt. */
export interface Composition {
  readonly messages: readonly Message[]
  readonly sections: readonly Section[]
  readonly lore: readonly LoreReport[]
  readonly dropped: DroppedCounts
  readonly unknownMacros: readonly string[]
}

/** Thrown if a prompt needs a token count and the request has no counter. The caller then loads a tokenizer, and tries again. */
export class TokenCounterNeeded extends Error {
  override readonly name = 'TokenCounterNeeded'
}
