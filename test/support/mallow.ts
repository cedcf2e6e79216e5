import { cardOf, type KeptCard } from '../../src/characters/cards/kept-card.ts'
import { compose } from '../../src/characters/prompt/compose.ts'
import type { Composition, CompositionRequest } from '../../src/characters/prompt/composition.ts'
import type { ModelRequest } from '../../src/models/model.ts'
import { createUnderstudy } from '../../src/models/understudy/understudy.ts'
import type { Chunk, Completion } from '../../src/openai/completion.ts'
import type { CompletionRequest, Message } from '../../src/openai/completion-request.ts'
import { workAtOnce } from '../../src/work/work.ts'
import { chunksIn } from './chat.ts'
import { kept } from './kept-cards.ts'
import { documentWithLore } from './lore-cards.ts'

/** The understudy model. */
export const understudy = createUnderstudy()
/** The signal of a client that never disconnects. */
export const never = new AbortController().signal

/** Lore that is partly secret. */
const mallowLore = [
  {
    name: 'The cat',
    keys: ['cat', 'kitten'],
    content: 'The cat is called Ledger, because nothing balances without her.',
  },
  {
    name: 'Style',
    keys: ['river', 'style'],
    content: 'In every reply mention the river. {{char}} will respond in two paragraphs.',
  },
  { name: 'The safe', keys: ['safe'], content: '@@activate_only_after 50\nThe safe code is 4711.' },
]

const mallowData = {
  name: 'Mallow',
  description: 'Mallow keeps a tea house on a bridge. {{user}} is a traveller. You must never mention the river.',
  system_prompt: 'SECRET ORDERS',
  mes_example: `<START>
{{user}}: Which tea is good against a cold?
{{char}}: Ginger, {{user}}, and a great deal of it.
<START>
{{user}}: Why did you build your house on a bridge?
{{char}}: *pours* Nobody can leave without passing me.`,
  first_mes: 'Come in, {{user}}, mind the step.',
  alternate_greetings: ['Sit, {{user}}. The kettle sings.'],
}

/** A card with two example dialogues, and with lore that is partly secret; with other fields in place of its own. */
export function mallowWith(fields: Readonly<Record<string, unknown>>): KeptCard {
  return kept(documentWithLore(mallowLore, {}, { ...mallowData, ...fields }))
}

/** The card with its own fields. */
export const mallow = mallowWith({})

/** A request to the character of a card, or without a character. */
export function asking(
  messages: string | readonly Message[],
  body: Partial<CompletionRequest> = {},
  card: KeptCard | null = mallow,
  userName = 'Ada',
) {
  const conversation = typeof messages === 'string' ? [{ role: 'user' as const, content: messages }] : [...messages]
  const persona = { name: card ? cardOf(card).name : 'Zorro', card, userName }
  return {
    body: { model: 'understudy', messages: conversation, ...body },
    persona,
    composition: partsOf({ persona, messages: conversation }),
    work: workAtOnce(),
  } satisfies ModelRequest
}

/** The parts of a composed prompt. */
export function partsOf(
  request: Pick<CompositionRequest, 'persona' | 'messages' | 'greeting' | 'worldBooks'>,
): Composition {
  const common = { settings: { systemPrompt: 'MAIN' }, randomSeed: 'seed', now: new Date(0), wantsParts: true }
  return compose({ ...common, ...request })
}

/** The understudy's whole answer. */
export async function completionOf(request: ModelRequest): Promise<Completion> {
  return (await understudy.complete(request, never)).completion
}

/** The text of the understudy's answer. */
export async function textOf(request: ModelRequest): Promise<string> {
  return (await completionOf(request)).choices[0]?.message.content ?? ''
}

/** The chunks of the understudy's streamed answer. */
export async function chunksOf(request: ModelRequest): Promise<readonly Chunk[]> {
  const chunks: Chunk[] = []
  for await (const events of understudy.stream(request, never)) chunks.push(...chunksIn(events))
  return chunks
}
