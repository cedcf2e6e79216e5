import type { Message } from '../../openai/completion-request.ts'
import { spend } from '../../work/fuel.ts'
import type { Card } from '../cards/card.ts'
import { maxExampleParts, tooManyExamples } from '../cards/examples.ts'
import { cardOf } from '../cards/kept-card.ts'
import type { DropReason } from '../lore/book-scan.ts'
import { begunReply } from '../lore/conversation.ts'
import { choosesPlace } from '../lore/entry.ts'
import { bookOf } from '../lore/kept-book.ts'
import { readRequestBooks } from '../lore/request-books.ts'
import { maxExpansionLength, tooLarge } from '../macros/macros.ts'
import { fastRandom } from '../macros/seeded-random.ts'
import { type CardTexts, type ExpansionContext, expansionContextOf, requestTextsOf, textsOf } from './card-texts.ts'
import type {
  Composition,
  CompositionRequest,
  CountTokens,
  DroppedCounts,
  LoreReport,
  LoreSource,
  PromptSettings,
  RequestTexts,
  Section,
} from './composition.ts'
import { type FitRequest, fitToContext, type PromptParts } from './fit-context.ts'
import { type FoundLore, findLore, type Lore } from './found-lore.ts'
import { activeGreeting, greetingMessage } from './greetings.ts'
import { injectionsOf, insertInjections, isOfConversation, isPrefill } from './injections.ts'
import { examplesOf, leadOf, loreBesideExamples, postHistoryOf } from './segments.ts'

/** The most characters of these texts together: main prompt, persona, definition with its lore, post-history and prefill. */
const maxPromptLength = 8 * maxExpansionLength

/** What a composition may use besides its request. */
export interface Means {
  /** Missing if the tokenizer is not loaded. */
  readonly countTokens?: CountTokens | undefined
  /** Draws like `Math.random`; by default from the seed of the request. */
  readonly random?: () => number
}

/**
 * Composes a prompt, in this order: main prompt, the request's own system messages, lore and the character's definition, example
 * dialogues, the conversation with its injections, post-history, prefill or begun reply. Except for its caches it is a pure
 * function: equal requests give equal prompts.
 * @throws ApiError 400 for a greeting that does not exist, for an invalid lorebook, for texts that are too long or have too many
 *   macros, and for a prompt that does not fit the model's context
 * @throws TokenCounterNeeded if tokens must be counted and there is no counter
 */
export function compose(request: CompositionRequest, means: Means = {}): Composition {
  spend(request.messages.length)
  if (request.persona.name !== null) return composeForCharacter(request, request.persona.name, means)
  if (request.texts === undefined) return composeWithoutCharacter(request, means)
  // Without a character, a request's persona, note and lorebooks have the same places in the prompt as with a character.
  const { greeting: _greeting, ...others } = request
  return composeForCharacter({ ...others, settings: settingsWithoutCharacter }, nameWithoutCharacter, means)
}

/** The value of {{char}}, and the prompt settings in place of the operator's, if no character is played. */
const nameWithoutCharacter = 'Assistant'
const settingsWithoutCharacter: PromptSettings = { systemPrompt: '', greeting: 'never' }

/** The texts of a request without any. */
const noTexts: RequestTexts = { seesCard: true }

/** The prompt of a character. */
function composeForCharacter(request: CompositionRequest, name: string, means: Means): Composition {
  const { persona, messages, settings, worldBooks = [], texts: sent = noTexts } = request
  const { countTokens, random = fastRandom(request.randomSeed) } = means
  const card = persona.card ? cardOf(persona.card) : namedCard(name)
  const { books, refusedRegexes } = readRequestBooks(sent.lorebooks ?? [], sent.seesCard)
  const texts = textsOf(card, persona, settings)
  const requestTexts = sent === noTexts ? texts : requestTextsOf(card, persona, settings, sent.seesCard)
  const context = expansionContextOf({ ...persona, name }, request, random)
  const described = sent.persona ?? ''
  if (described !== '') context.persona = requestTexts.expand('request/persona', described, context, { persona: '' })
  const { leading: ownSystem, rest: own } = splitLeading(messages)

  const { index, inserts } = activeGreeting(texts, context, request, own)
  const greeting = inserts ? greetingMessage(texts, context, index ?? 0) : null
  const conversation = greeting ? [greeting, ...own] : own
  context.conversation = conversation.filter(isOfConversation)
  const others = { own: books, world: worldBooks.map(bookOf) }
  const lore = findLore(texts, requestTexts, context, index, others, { ...request, countTokens })
  const note = sent.authorNote
  const noted = note ? requestTexts.expand('request/author_note', note.text, context) : ''
  if (note && noted !== '') context.authorNote = { ...note, text: noted }

  const parts = { lore: lore.kept, examples: examplesOf(texts, context), conversation }
  const assemble = (kept: PromptParts) => assembled(texts, context, ownSystem, kept)
  const whole = assemble(parts)
  const fitting = fittingParts(parts, whole.messages, request, countTokens, (kept) => assemble(kept).messages)
  const { messages: composed, sections } = fitting === parts ? whole : assemble(fitting)
  const isWanted = request.wantsParts === true
  return {
    messages: composed,
    sections: isWanted ? sectionsOf(sections(), fitting, greeting) : [],
    lore: isWanted ? reportsOf(lore, fitting, card) : [],
    dropped: countsOf(lore, parts, fitting),
    unknownMacros: [...context.unknown],
    refusedRegexes,
  }
}

/** The system messages before the conversation, and the messages from its first one on. */
function splitLeading(messages: readonly Message[]) {
  const first = messages.findIndex(isOfConversation)
  return first === -1
    ? { leading: messages, rest: [] }
    : { leading: messages.slice(0, first), rest: messages.slice(first) }
}

/**
 * The parts that fit the model's context. If the size of the context is not known, everything is sent.
 * @param whole the messages of all parts
 */
function fittingParts(
  parts: PromptParts,
  whole: readonly Message[],
  request: CompositionRequest,
  countTokens: CountTokens | undefined,
  assemble: FitRequest['assemble'],
): PromptParts {
  const { contextWindow, replyTokens, overflow, texts } = request
  if (contextWindow === undefined) return parts
  return fitToContext(parts, whole, { contextWindow, replyTokens, overflow, texts, countTokens, assemble })
}

/** The prompt without a character: the request's messages. */
function composeWithoutCharacter(request: CompositionRequest, { countTokens }: Means): Composition {
  const { messages, overflow } = request
  // The leading system messages are the instructions for the whole conversation, so they are never dropped.
  const { leading, rest } = overflow === undefined ? { leading: [], rest: messages } : splitLeading(messages)
  const parts = { lore: [], examples: [], conversation: rest }
  const assemble = ({ conversation }: PromptParts) => [...leading, ...conversation]
  const fitting = fittingParts(parts, messages, request, countTokens, assemble)
  const sent = fitting === parts ? messages : assemble(fitting)
  return {
    messages: sent,
    sections: [{ section: 'conversation', messages: sent }],
    lore: [],
    dropped: countsOf({ kept: [], dropped: [] }, parts, fitting),
    unknownMacros: [],
    refusedRegexes: [],
  }
}

const nameOnlyCards = new Map<string, Card>()

/** A card with only a name. The same name gives the same object, so that its cached texts are found again. */
function namedCard(name: string): Card {
  const known = nameOnlyCards.get(name)
  if (known) return known
  const empty = { nickname: '', description: '', personality: '', scenario: '', systemPrompt: '', examples: '' }
  const made = { name, ...empty, greetings: [''] }
  if (nameOnlyCards.size >= 200) nameOnlyCards.clear()
  nameOnlyCards.set(name, made)
  return made
}

interface Assembled {
  readonly messages: readonly Message[]
  /** All sections except the greeting and the conversation, in the order of the receipt. */
  readonly sections: () => readonly Section[]
}

function assembled(
  texts: CardTexts,
  context: ExpansionContext,
  ownSystem: readonly Message[],
  parts: PromptParts,
): Assembled {
  const { lore, examples, conversation } = parts
  const begun = begunReply(conversation)
  const lead = leadOf(texts, context, lore, ownSystem.length > 0)
  const beside = lore.filter(isBesideExamples)
  const before = beside.length === 0 ? [] : loreBeside(texts, beside, 'before_examples')
  const after = beside.length === 0 ? [] : loreBeside(texts, beside, 'after_examples')
  const length = conversation.filter(isOfConversation).length
  const injections = injectionsOf(texts, context, lore, length)
  // If the request has begun a reply, the model must continue it, so the begun reply comes last. The card's prefills are then
  // ordinary messages before post-history.
  const prefills = begun ? [] : injections.filter(isPrefill)
  const inserted = prefills.length > 0 ? injections.filter((injection) => !isPrefill(injection)) : injections
  const postHistory = postHistoryOf(texts, context, lore)
  const prefill = prefills.map(({ message }) => message.content).join('\n')
  const said = insertInjections(conversation, inserted)
  // `concat` copies whole lists. Iterating over hundreds of example messages would cost more than the rest of this function.
  const messages = listOf(lead.main).concat(
    ownSystem,
    listOf(lead.character),
    before,
    ...examples,
    after,
    begun ? said.filter((message) => message !== begun) : said,
    listOf(postHistory === '' ? null : { role: 'system', content: postHistory }),
    listOf(prefill === '' ? null : { role: 'assistant', content: prefill }),
    listOf(begun),
  )
  spend((messages.length + lore.length) * unitsOfPlacing)
  const written = lead.sections.reduce(
    (sum, { text }) => sum + (text?.length ?? 0),
    postHistory.length + prefill.length,
  )
  if (written > maxPromptLength) throw tooLarge()
  const list = (): readonly Section[] => {
    const sections: Section[] = [...lead.sections]
    const add = (section: Section['section'], parts: readonly Message[]) => {
      if (parts.length > 0) sections.push({ section, messages: parts })
    }
    add('request_system', ownSystem)
    add('lore_examples', [...before, ...after])
    add('examples', examples.flat())
    for (const section of ['lore_at_depth', 'author_note', 'depth_note'] as const) {
      add(
        section,
        inserted.filter((injection) => injection.section === section).map(({ message }) => message),
      )
    }
    if (postHistory !== '') sections.push({ section: 'post_history', text: postHistory })
    if (prefill !== '') sections.push({ section: 'prefill', text: prefill })
    return sections
  }
  return { messages, sections: list }
}

/** Units of work to place one message or entry. */
const unitsOfPlacing = 10

function listOf(message: Message | null | undefined): readonly Message[] {
  return message ? [message] : []
}

/** Whether an entry's place is next to the example dialogues. */
function isBesideExamples({ entry: { place }, rules }: Lore): boolean {
  return (place.section === 'before_examples' || place.section === 'after_examples') && !choosesPlace(rules)
}

/**
 * The lore on one side of the example dialogues.
 * @throws ApiError 400 `card_too_large` for more than 10,000 messages
 */
function loreBeside(
  texts: CardTexts,
  lore: readonly Lore[],
  section: 'before_examples' | 'after_examples',
): readonly Message[] {
  const beside: Message[] = []
  for (const each of lore) {
    if (each.entry.place.section !== section) continue
    for (const message of loreBesideExamples(texts, each)) beside.push(message)
    if (beside.length > maxExampleParts) throw tooManyExamples()
  }
  return beside
}

function sectionsOf(
  sections: readonly Section[],
  { conversation }: PromptParts,
  greeting: Message | null,
): readonly Section[] {
  const rest = conversation.filter((message) => message !== greeting)
  return [
    ...sections,
    ...(rest.length < conversation.length && greeting ? [{ section: 'greeting' as const, messages: [greeting] }] : []),
    ...(rest.length > 0 ? [{ section: 'conversation' as const, messages: rest }] : []),
  ]
}

function reportsOf({ kept, dropped }: FoundLore, fitting: PromptParts, card: Card): readonly LoreReport[] {
  const staying = new Set(fitting.lore)
  return [
    ...kept.map((lore) => (staying.has(lore) ? reportOf(lore, card) : reportOf(lore, card, 'context'))),
    ...dropped.map(({ lore, reason }) => reportOf(lore, card, reason)),
  ]
}

function reportOf(lore: Lore, card: Card, dropped?: DropReason): LoreReport {
  const { entry, book, keys, body } = lore
  const named = entry.name || (entry.keys[0]?.written ?? `entry ${entry.index + 1}`)
  return {
    entry: named,
    book,
    fired: dropped === undefined,
    ...(keys.length > 0 ? { keys } : {}),
    ...(dropped === undefined ? {} : { dropped }),
    text: body,
    source: sourceOf(lore, card),
  }
}

function sourceOf({ entry, bookIndex }: Lore, card: Card): LoreSource {
  if (card.book && bookIndex === 0) return entry.index
  const keys = entry.keys.filter(({ text }) => text !== undefined).map(({ written }) => written)
  return { name: entry.name, body: entry.body, keys }
}

/** The reasons for which `DroppedCounts` counts a dropped entry. For the other reasons, the book itself leaves the entry out. */
const lossy: ReadonlySet<DropReason> = new Set(['budget', 'limit', 'context'])

function countsOf(lore: FoundLore, whole: PromptParts, fitting: PromptParts): DroppedCounts {
  return {
    lore: whole.lore.length - fitting.lore.length + lore.dropped.filter(({ reason }) => lossy.has(reason)).length,
    examples: whole.examples.length - fitting.examples.length,
    messages: whole.conversation.length - fitting.conversation.length,
  }
}
