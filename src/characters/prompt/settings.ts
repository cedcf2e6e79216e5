import type { Config } from '../../config.ts'
import type { Card } from '../cards/card.ts'

/** Who is played, and to whom. Without a card the character is played by its name alone. */
export interface Persona {
  /** The name as the caller asked for it, or the card's own; null when no character is played. */
  readonly name: string | null
  readonly card: Card | null
  readonly userName: string
  /** SHA-256 of the card's bytes: what `{{pick}}` and weighted groups turn on. */
  readonly digest?: string
}

/** The user's name where the request has none: `GET /characters/{name}` shows greetings to this user. */
export const unnamedUser = 'User'

/** What the operator sets about prompts. */
export interface PromptSettings {
  /** The main prompt for cards that bring none. */
  readonly systemPrompt: string
  /** What stands after the conversation for cards that bring nothing of the kind. */
  readonly postHistoryPrompt?: string
  /** Whether the greeting is put before a conversation that the character has not opened. */
  readonly greeting?: 'auto' | 'never'
}

/** The main prompt when neither the card nor the operator brings one. */
export const builtInSystemPrompt =
  "Write {{char}}'s next reply in a conversation between {{char}} and {{user}}. Stay in character."

/** What the operator's settings say about prompts. */
export function promptSettings(
  config: Pick<Config, 'systemPrompt' | 'postHistoryPrompt' | 'greeting'>,
): PromptSettings {
  return {
    systemPrompt: config.systemPrompt ?? builtInSystemPrompt,
    postHistoryPrompt: config.postHistoryPrompt ?? '',
    greeting: config.greeting,
  }
}
