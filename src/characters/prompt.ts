import type { Message } from '../chat/completion.ts'
import type { Card } from './card.ts'
import { readExamples } from './examples.ts'
import { expandNames } from './macros.ts'

/** Who is played, and to whom. Without a card the character is played by its name alone. */
export interface Persona {
  /** The name as the caller asked for it, or the card's own; null when no character is played. */
  readonly name: string | null
  readonly card: Card | null
  readonly userName: string
}

/** What the operator sets about prompts. */
export interface PromptSettings {
  /** The main prompt for cards that bring none. */
  readonly systemPrompt: string
}

/** The main prompt when neither the card nor the operator brings one. */
export const builtInSystemPrompt =
  "Write {{char}}'s next reply in a conversation between {{char}} and {{user}}. Stay in character."

/**
 * Composes what the model is told: system prompt, description, personality, scenario, example dialogues,
 * then the request's own messages, unchanged.
 */
export function composePrompt(
  persona: Persona,
  messages: readonly Message[],
  settings: PromptSettings,
): readonly Message[] {
  const { card } = persona
  if (persona.name === null) return messages
  if (card === null) {
    const names = { character: persona.name, user: persona.userName }
    return [system(expandNames(settings.systemPrompt.replaceAll('\r', ''), names).trim()), ...messages]
  }
  return [...fixedMessages(card, persona.userName, settings), ...messages]
}

/** How many users' fixed messages are kept for a card. */
const mostKeptUsers = 100
const kept = new WeakMap<PromptSettings, WeakMap<Card, Map<string, readonly Message[]>>>()

/** The messages that a card gives every request of the same user's name; frozen, so that they are written once. */
function fixedMessages(card: Card, userName: string, settings: PromptSettings): readonly Message[] {
  const byCard = kept.get(settings) ?? new WeakMap<Card, Map<string, readonly Message[]>>()
  kept.set(settings, byCard)
  const byUser = byCard.get(card) ?? new Map<string, readonly Message[]>()
  byCard.set(card, byUser)
  const known = byUser.get(userName)
  if (known) return known
  const made = composeFixed(card, userName, settings).map((message) => Object.freeze(message))
  if (byUser.size >= mostKeptUsers) byUser.clear()
  byUser.set(userName, made)
  return made
}

function composeFixed(card: Card, userName: string, settings: PromptSettings): readonly Message[] {
  const names = { character: card.nickname || card.name, user: userName }
  const expanded = (text: string, original?: string) => expandNames(text.replaceAll('\r', ''), names, original).trim()
  const original = expanded(settings.systemPrompt)
  const main = card.systemPrompt.trim() ? expanded(card.systemPrompt, original) : original
  const texts = [main, expanded(card.description), expanded(card.personality), expanded(card.scenario)]
  const speakers = { ...names, character: card.name, nickname: names.character }
  const blocks = readExamples(card.examples, speakers, (line) => expandNames(line, names))
    .map((block) => block.filter(({ text }) => text !== ''))
    .filter((block) => block.length > 0)
  const examples = blocks.flatMap((block) => [
    system('[Example Chat]'),
    ...block.map(({ speaker, text }) =>
      speaker === null
        ? system(text)
        : { ...system(text), name: speaker === 'user' ? 'example_user' : 'example_assistant' },
    ),
  ])
  return [system(texts.filter((text) => text !== '').join('\n\n')), ...examples]
}

function system(content: string): Message {
  return { role: 'system', content }
}
