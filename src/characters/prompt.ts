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
 * then the request's own messages, unchanged. A pure function.
 */
export function composePrompt(
  persona: Persona,
  messages: readonly Message[],
  settings: PromptSettings,
): readonly Message[] {
  if (persona.name === null) return messages
  const { card } = persona
  const names = { character: card?.nickname || card?.name || persona.name, user: persona.userName }
  const expanded = (text: string, original?: string) => expandNames(text.replaceAll('\r', ''), names, original).trim()
  if (card === null) return [system(expanded(settings.systemPrompt)), ...messages]

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
  return [system(texts.filter((text) => text !== '').join('\n\n')), ...examples, ...messages]
}

function system(content: string): Message {
  return { role: 'system', content }
}
