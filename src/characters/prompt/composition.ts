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
  /** The refused regular expressions of the books. They match nothing. */
  readonly refusedRegexes?: readonly string[]
  /** Whether macros in these texts may insert the card's own texts, and whether keys of these books are searched for in them. */
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
  /** The active greeting: 0 is `first_mes`, n is the nth of `alternate_greetings`, and -1 is no greeting. */
  readonly greeting?: number | undefined
  /** Together with the card, the seed of `{{pick}}`, greetings and groups. */
  readonly conversationId?: string | undefined
  readonly texts?: RequestTexts | undefined
  /** The operator's lorebooks for all characters. They come after the character's book and the request's books. */
  readonly worldBooks?: readonly Lorebook[]
  /** The tokens of the model's context, including the reply; undefined if the size of the context is not known. */
  readonly contextWindow?: number | undefined
  /** Tokens reserved for the reply. */
  readonly replyTokens?: number
  readonly overflow?: 'drop-oldest' | undefined
  /** Counts the tokens of a text. It is called only if the prompt or the lore of a book may exceed its limit of tokens. */
  readonly countSteps?: ((text: string) => Steps<number>) | undefined
  /**
   * Called with the bytes of texts that the composition makes from the card and the lorebooks. They are in memory at most until
   * the prompt is composed. An error of this function ends the composition.
   */
  readonly onMemory?: ((bytes: number) => void) | undefined
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
  /** The expanded body, also of an entry that was dropped. */
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
