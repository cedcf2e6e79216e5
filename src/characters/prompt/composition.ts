import type { Config } from '../../config.ts'
import type { Fields } from '../../fields.ts'
import type { Message } from '../../openai/completion-request.ts'
import type { KeptCard } from '../cards/kept-card.ts'
import type { DropReason } from '../lore/book-scan.ts'
import type { Role } from '../lore/decorators.ts'
import type { KeptBook } from '../lore/kept-book.ts'

/** The character that the model plays, and the user. Without a card, the model knows only the character's name. */
export interface Persona {
  /** The name from the request, or the name in the card; null when no character is played. */
  readonly name: string | null
  readonly card: KeptCard | null
  readonly userName: string
  /** SHA-256 of the card's bytes: a part of the seed of `{{pick}}`, greetings and groups. */
  readonly digest?: string
}

/** The user's name in requests without one. */
export const defaultUserName = 'User'

/** The user's name in a prompt. @param given `user_name` of a request */
export function userNameOf(given: string | null | undefined): string {
  return given?.trim().toWellFormed() || defaultUserName
}

/** The operator's settings of prompts. */
export interface PromptSettings {
  /** The main prompt for cards without one. */
  readonly systemPrompt: string
  /** The text after the conversation, for cards without such a text. */
  readonly postHistoryPrompt?: string
  /** Whether a greeting is put before a conversation that begins with the user. */
  readonly greeting?: 'auto' | 'never'
}

/** The main prompt if neither the card nor the operator has one. */
export const builtInSystemPrompt =
  "Write {{char}}'s next reply in a conversation between {{char}} and {{user}}. Stay in character."

/** The prompt settings in the operator's configuration, with defaults. */
export function promptSettings(
  config: Pick<Config, 'systemPrompt' | 'postHistoryPrompt' | 'greeting'>,
): PromptSettings {
  return {
    systemPrompt: config.systemPrompt ?? builtInSystemPrompt,
    postHistoryPrompt: config.postHistoryPrompt ?? '',
    greeting: config.greeting,
  }
}

/** The texts of a request besides its messages; the service does not store them. */
export interface RequestTexts {
  /** The user's persona, with unexpanded macros. */
  readonly persona?: string
  readonly authorNote?: AuthorNote
  /** The request's lorebooks as JSON. */
  readonly lorebooks?: readonly Fields[]
  /** Whether macros in these texts may insert the card's own texts, and whether keys of these books are searched for in them. */
  readonly seesCard: boolean
}

/** A text of the user, placed `depth` messages before the end. */
export interface AuthorNote {
  readonly text: string
  readonly depth: number
  readonly role: Role
}

/** The input of `compose`: plain data. Equal inputs give equal prompts, in every thread. */
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
  readonly worldBooks?: readonly KeptBook[]
  /** The tokens of the model's context, including the reply; undefined if the size of the context is not known. */
  readonly contextWindow?: number | undefined
  /** Tokens reserved for the reply. */
  readonly replyTokens?: number
  readonly overflow?: 'drop-oldest' | undefined
  /** The seed of the random draws, which differ between requests. */
  readonly randomSeed: string
  readonly now: Date
  /** Whether the sections and the report of lore are wanted, besides the messages. */
  readonly wantsParts?: boolean
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
  readonly source: LoreSource
}

/** An entry of the card's own book, by its index in the file, or the texts of an entry of another book. */
export type LoreSource = number | OtherEntry

/** An entry of a book that is not in the card. */
export interface OtherEntry {
  readonly name: string
  /** The content with unexpanded macros. */
  readonly body: string
  /** The keys as they are written, without regular expressions. */
  readonly keys: readonly string[]
}

/** The numbers of parts that were dropped from a prompt. */
export interface DroppedCounts {
  readonly lore: number
  readonly examples: number
  readonly messages: number
}

/** A composed prompt as plain data. The sections and the report of lore are empty unless the request wants them. */
export interface Composition {
  readonly messages: readonly Message[]
  readonly sections: readonly Section[]
  readonly lore: readonly LoreReport[]
  readonly dropped: DroppedCounts
  readonly unknownMacros: readonly string[]
  /** The refused regular expressions of the request's lorebooks. They match nothing. */
  readonly refusedRegexes: readonly string[]
}

/** Counts the tokens of a text. */
export type CountTokens = (text: string) => number

/** Thrown if a prompt needs a token count and the tokenizer is not loaded. The caller loads it, and tries again. */
export class TokenCounterNeeded extends Error {
  override readonly name = 'TokenCounterNeeded'
}
