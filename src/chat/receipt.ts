import { type Static, Type } from '@sinclair/typebox'
import { cappedList } from '../characters/cards/description.ts'
import type { Composition, CompositionRequest, RequestTexts, Section } from '../characters/prompt/composition.ts'
import type { Tokenizer } from '../models/tokenizer.ts'
import { Message } from '../openai/completion-request.ts'
import { tokensPerReply } from '../openai/message-sizes.ts'

/** The prompt that a model would get, and how it was composed. */
export const PromptReceipt = Type.Object(
  {
    object: Type.Literal('chat.prompt'),
    model: Type.String(),
    character: Type.Union([Type.String(), Type.Null()], {
      description: "The character's name, and the digest of its card.",
    }),
    messages: Type.Array(Message, { description: 'The messages that the model would get.' }),
    tokens: Type.Object({
      total: Type.Integer(),
      exact: Type.Boolean({ description: "Whether the count used the model's own tokenizer." }),
      sections: Type.Array(Type.Object({ section: Type.String(), tokens: Type.Integer() })),
    }),
    lore: Type.Array(
      Type.Object({
        entry: Type.String(),
        book: Type.String(),
        fired: Type.Boolean(),
        keys: Type.Optional(Type.Array(Type.String())),
        tokens: Type.Integer(),
        dropped: Type.Optional(
          Type.String({
            description:
              'The reason why the entry is not in the prompt: probability, group, position, limit, budget or context.',
          }),
        ),
      }),
    ),
    dropped: Type.Object({ lore: Type.Integer(), examples: Type.Integer(), messages: Type.Integer() }),
    unknown_macros: Type.Array(Type.String(), {
      description:
        'Macros that the service does not know. If the caller may not read the card, only those in `persona` and `author_note`.',
    }),
    refused_regexes: Type.Array(Type.String(), {
      description: "Regular expressions of the request's `lorebooks` that never match here.",
    }),
  },
  { title: 'PromptReceipt' },
)
export type PromptReceipt = Static<typeof PromptReceipt>

/** What a receipt says besides the prompt. */
export interface ReceiptAbout {
  /** The name of the model that would answer, from the request or the card. For `default`, the name that `default` stands for. */
  readonly model: string
  readonly upstreamId: string
  /** The name of the persona, with the digest of its card. */
  readonly character: string | null
  /** Whether the caller may read the card's texts. */
  readonly isShown: boolean
}

/** A receipt as JSON, and the tokens of its prompt. */
export interface SizedReceipt {
  readonly json: Uint8Array
  readonly tokens: number
}

/** Makes the receipt of a prompt. @param messages the messages that the model would get */
export type MakeReceipt = (
  about: ReceiptAbout,
  request: CompositionRequest,
  composition: Composition,
  messages: readonly Message[],
) => SizedReceipt

/** Replaces a text that the caller may not read. */
const withheld = '[withheld]'

/** Makes a function that makes the receipts of prompts. */
export function receiptMaker(tokenizer: Tokenizer): MakeReceipt {
  return (about, request, composition, messages) => {
    const receipt = receiptOf(about, request, composition, messages, tokenizer)
    return { json: new TextEncoder().encode(JSON.stringify(receipt)), tokens: receipt.tokens.total }
  }
}

/**
 * Makes the receipt of a prompt. If the caller may not read the card, the receipt withholds the texts of the card, but counts
 * their tokens.
 * @param prompt the messages that the model would get
 */
function receiptOf(
  { model, upstreamId, character, isShown }: ReceiptAbout,
  { messages: sent, texts }: CompositionRequest,
  composition: Composition,
  prompt: readonly Message[],
  tokenizer: Tokenizer,
): PromptReceipt {
  const own = new Set(sent)
  const messages = prompt.map((message) => {
    if (isShown || own.has(message)) return message
    return { role: message.role, ...(message.name ? { name: message.name } : {}), content: withheld }
  })
  const total = tokenizer.countMessages(prompt)
  return {
    object: 'chat.prompt',
    model,
    character,
    messages,
    tokens: { total, exact: usesOurTokenizer(upstreamId), sections: sectionTokens(composition.sections, tokenizer) },
    lore: composition.lore.map(({ entry, book, fired, keys, dropped, text }, index) => ({
      entry: isShown ? entry : `${withheld} ${index + 1}`,
      book,
      fired,
      ...(keys && isShown ? { keys: [...keys] } : {}),
      tokens: tokenizer.count(text),
      ...(dropped === undefined ? {} : { dropped }),
    })),
    dropped: { ...composition.dropped },
    unknown_macros: isShown ? [...composition.unknownMacros] : unknownMacrosOf(texts, composition),
    refused_regexes: [...cappedList(composition.refusedRegexes)],
  }
}

/** The unknown macros in the caller's own persona or author's note. Their names reveal nothing about the card. */
function unknownMacrosOf(texts: RequestTexts | undefined, { unknownMacros }: Composition): string[] {
  const sent = `${texts?.persona ?? ''}\n${texts?.authorNote?.text ?? ''}`.toLowerCase()
  return unknownMacros.filter((name) => sent.includes(name.replace(/…$/, '')))
}

/** Tokens by section, in the order of the prompt. */
function sectionTokens(sections: readonly Section[], { count, countMessages }: Tokenizer) {
  const tokens = new Map<string, number>()
  for (const { section, text, messages = [] } of sections) {
    const cost = text === undefined ? countMessages(messages) - tokensPerReply : count(text)
    tokens.set(section, (tokens.get(section) ?? 0) + cost)
  }
  return [...tokens].map(([section, cost]) => ({ section, tokens: cost }))
}

/** Whether a model uses this service's tokenizer, as the understudy and OpenAI's models since GPT-4o do. */
function usesOurTokenizer(model: string): boolean {
  return /^(?:understudy|(?:chat)?gpt-(?:4o|4\.1|4\.5|5)|o[1-9](?:-|$))/.test(model)
}
