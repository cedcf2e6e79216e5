import { cappedList } from '../characters/cards/description.ts'
import type { Composition, Section } from '../characters/prompt/composition.ts'
import type { Persona } from '../characters/prompt/settings.ts'
import { loadTokenizer, type Tokenizer } from '../models/tokenizer.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import { tokensPerReply } from '../openai/messages.ts'
import type { PromptReceipt } from './receipt-schema.ts'
import type { ComposedRequest } from './request-composer.ts'
import { personaName } from './resolve-persona.ts'

/** The data from which a receipt is made. */
export interface ReceiptParts {
  /** The name of the model that would answer, from the request or the card. For `default`, the name that `default` stands for. */
  readonly model: string
  readonly upstreamId: string
  readonly persona: Persona
  readonly body: CompletionRequest
  readonly composed: Pick<ComposedRequest, 'composition' | 'request'>
  /** Regular expressions of the request's lorebooks that the engine refuses. They never match. */
  readonly refusedRegexes: readonly string[]
  /** Whether the caller may read the card's texts. */
  readonly isShown: boolean
}

/** Replaces a text that the caller may not read. */
const withheld = '[withheld]'

/**
 * Makes the receipt of a prompt. If the caller may not read the card, the receipt withholds the texts of the card, but counts
 * their tokens.
 */
export async function receiptOf(parts: ReceiptParts): Promise<PromptReceipt> {
  const { composed, persona, body, isShown } = parts
  const { composition, request } = composed
  const tokenizer = await loadTokenizer()
  const own = new Set(body.messages)
  const messages = request.body.messages.map((message) => {
    if (isShown || own.has(message)) return message
    return { role: message.role, ...(message.name ? { name: message.name } : {}), content: withheld }
  })
  const tokens = await request.work.run('messages', tokensOf(composed, tokenizer))
  return {
    object: 'chat.prompt',
    model: parts.model,
    character: personaName(persona),
    messages,
    tokens: { total: tokens.total, exact: usesOurTokenizer(parts.upstreamId), sections: tokens.sections },
    lore: composition.lore.map(({ entry, book, fired, keys, dropped }, index) => ({
      entry: isShown ? entry : `${withheld} ${index + 1}`,
      book,
      fired,
      ...(keys && isShown ? { keys: [...keys] } : {}),
      tokens: tokens.lore[index] ?? 0,
      ...(dropped === undefined ? {} : { dropped }),
    })),
    dropped: { ...composition.dropped },
    unknown_macros: isShown ? [...composition.unknownMacros] : unknownMacrosOf(body, composition),
    refused_regexes: [...cappedList(parts.refusedRegexes)],
  }
}

/** The unknown macros in the caller's own persona or author's note. Their names reveal nothing about the card. */
function unknownMacrosOf({ persona, author_note }: CompletionRequest, { unknownMacros }: Composition): string[] {
  const sent = `${persona ?? ''}\n${author_note?.text ?? ''}`.toLowerCase()
  return unknownMacros.filter((name) => sent.includes(name.replace(/…$/, '')))
}

/**
 * Counts the tokens of the whole prompt, of each section and of each lore entry. The total counts a text in several sections only
 * once.
 */
function* tokensOf({ composition, request }: ReceiptParts['composed'], tokenizer: Tokenizer) {
  const total = yield* tokenizer.countMessages(request.body.messages)
  const sections = yield* sectionTokens(composition.sections, tokenizer)
  const lore: number[] = []
  for (const { text } of composition.lore) lore.push(yield* tokenizer.countSteps(text))
  return { total, sections, lore }
}

/** Tokens by section, in the order of the prompt. */
function* sectionTokens(sections: readonly Section[], { countSteps, countMessages }: Tokenizer) {
  const tokens = new Map<string, number>()
  for (const { section, text, messages = [] } of sections) {
    const cost = text === undefined ? (yield* countMessages(messages)) - tokensPerReply : yield* countSteps(text)
    tokens.set(section, (tokens.get(section) ?? 0) + cost)
  }
  return [...tokens].map(([section, cost]) => ({ section, tokens: cost }))
}

/** Whether a model uses this service's tokenizer, as the understudy and OpenAI's models since GPT-4o do. */
function usesOurTokenizer(model: string): boolean {
  return /^(?:understudy|(?:chat)?gpt-(?:4o|4\.1|4\.5|5)|o[1-9](?:-|$))/.test(model)
}
