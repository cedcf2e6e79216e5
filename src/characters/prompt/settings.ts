import type { Config } from '../../config.ts'
import type { KeptCard } from '../cards/kept-card.ts'

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
