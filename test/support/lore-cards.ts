import { type Card, readCard } from '../../src/characters/cards/card.ts'
import type { Composition, CompositionRequest } from '../../src/characters/prompt/composition.ts'
import type { Message } from '../../src/openai/completion-request.ts'
import type { Steps } from '../../src/work.ts'
import { atOnce, composedAtOnce } from './composed.ts'

/** The document of a V3 card with these fields. */
export function documentOf(data: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return { spec: 'chara_card_v3', spec_version: '3.0', data: { name: 'Moss', ...data } }
}

/** The card of a document. */
export function cardIn(document: Readonly<Record<string, unknown>>): Card {
  return atOnce(readCard(document))
}

/** A V3 card with these fields. */
export function cardOf(data: Readonly<Record<string, unknown>>): Card {
  return cardIn(documentOf(data))
}

/** A card with a lorebook of these entries. By default an entry is enabled, and its content is `LORE` and its index. */
export function cardWithLore(
  entries: readonly Readonly<Record<string, unknown>>[],
  book: Readonly<Record<string, unknown>> = {},
  data: Readonly<Record<string, unknown>> = {},
): Card {
  return cardOf({
    ...data,
    character_book: {
      extensions: {},
      entries: entries.map((entry, index) => ({
        keys: [],
        content: `LORE${index}`,
        enabled: true,
        insertion_order: 0,
        extensions: {},
        ...entry,
      })),
      ...book,
    },
  })
}

/** Composes a prompt for a card, with the main prompt `MAIN`. */
export function composed(
  card: Card | null,
  messages: readonly Message[] | string,
  more: Omit<Partial<CompositionRequest>, 'messages'> & {
    readonly userName?: string
    readonly name?: string | null
    readonly count?: (text: string) => number
  } = {},
): Composition {
  const { userName = 'User', name, count, ...rest } = more
  const said = typeof messages === 'string' ? [user(messages)] : messages
  return composedAtOnce({
    persona: { name: name === undefined ? (card?.name ?? null) : name, card, userName, digest: 'd' },
    messages: said,
    settings: { systemPrompt: 'MAIN' },
    ...(count ? { countSteps: stepsOf(count) } : {}),
    ...rest,
  })
}

/** A token counter as steps, one step for each text. */
function stepsOf(count: (text: string) => number) {
  return function* (text: string): Steps<number> {
    yield text.length
    return count(text)
  }
}

/** The texts of the activated lore, in the order of the receipt. */
export function firedIn({ lore }: Composition): readonly string[] {
  return lore.filter(({ fired }) => fired).map(({ text }) => text)
}

/** The messages of a prompt, one line each: the name, or otherwise the role, and the content. */
export function promptLines({ messages }: Composition): readonly string[] {
  return messages.map(({ role, name, content }) => `${name ?? role}: ${String(content)}`)
}

export function user(content: string): Message {
  return { role: 'user', content }
}

export function assistant(content: string): Message {
  return { role: 'assistant', content }
}

export function system(content: string, name?: string): Message {
  return name === undefined ? { role: 'system', content } : { role: 'system', name, content }
}
