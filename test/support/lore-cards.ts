import type { Card } from '../../src/characters/cards/card.ts'
import { type KeptCard, cardOf as keptCardOf } from '../../src/characters/cards/kept-card.ts'
import type { Composition, CompositionRequest } from '../../src/characters/prompt/composition.ts'
import type { Message } from '../../src/openai/completion-request.ts'
import { composedAtOnce } from './composed.ts'
import { documentOf, kept } from './kept-cards.ts'

const keptByCard = new WeakMap<Card, KeptCard>()
let cards = 0

/** The card of a document. Each call gives a new card, for which nothing is cached. */
export function cardIn(document: Readonly<Record<string, unknown>>): Card {
  const made = { ...kept(document), digest: `card ${cards++}` }
  const card = keptCardOf(made)
  keptByCard.set(card, made)
  return card
}

/** What the service keeps of a card of `cardIn`. */
export function keptOf(card: Card): KeptCard {
  const made = keptByCard.get(card)
  if (!made) throw new Error('the card is not from cardIn')
  return made
}

/** A V3 card with these fields. */
export function cardOf(data: Readonly<Record<string, unknown>>): Card {
  return cardIn(documentOf(data))
}

/** A card with a lorebook (`documentWithLore`). */
export function cardWithLore(...lore: Parameters<typeof documentWithLore>): Card {
  return cardIn(documentWithLore(...lore))
}

/**
 * The document of a card with a lorebook of these entries. By default an entry is enabled, and its content is `LORE` and its index.
 */
export function documentWithLore(
  entries: readonly Readonly<Record<string, unknown>>[],
  book: Readonly<Record<string, unknown>> = {},
  data: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, unknown>> {
  return documentOf({
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
    readonly random?: () => number
  } = {},
): Composition {
  const { userName = 'User', name, count, random, ...rest } = more
  const said = typeof messages === 'string' ? [user(messages)] : messages
  const persona = {
    name: name === undefined ? (card?.name ?? null) : name,
    card: card && keptOf(card),
    userName,
    digest: 'd',
  }
  return composedAtOnce(
    { persona, messages: said, settings: { systemPrompt: 'MAIN' }, ...rest },
    { countTokens: count, ...(random && { random }) },
  )
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
