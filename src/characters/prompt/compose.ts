import type { Message } from '../../openai/completion-request.ts'
import type { Steps } from '../../work.ts'
import type { Card } from '../cards/card.ts'
import { maxExampleParts, tooManyExamples } from '../cards/examples.ts'
import type { DropReason } from '../lore/book-scan.ts'
import { begunReply, Conversation } from '../lore/conversation.ts'
import { choosesPlace } from '../lore/entry.ts'
import { maxExpansionLength, tooLarge } from '../macros/macros.ts'
import { type CardTexts, type ExpansionContext, expansionContextOf, requestTextsOf, textsOf } from './card-texts.ts'
import type { Composition, CompositionRequest, DroppedCounts, LoreReport, Section } from './composition.ts'
import { fitToContext, type PromptParts } from './fit-context.ts'
import { type FoundLore, findLore, type Lore } from './found-lore.ts'
import { activeGreeting, greetingMessage } from './greetings.ts'
import { injectionsOf, insertInjections, isOfConversation, isPrefill } from './injections.ts'
import { examplesOf, leadOf, loreBesideExamples, postHistoryMessage, postHistoryOf } from './segments.ts'
import type { PromptSettings } from './settings.ts'

/** The most characters of these texts together: main prompt, persona, definition with its lore, post-history and prefill. */
const maxPromptLength = 8 * maxExpansionLength

/**
 * Composes a prompt, in this order: main prompt, the request's own system messages, lore and the character's definition, example
 * dialogues, the conversation with its injections, post-history, prefill or begun reply. Except for its caches it is a pure
 * function: equal requests give equal messages, unless a text or a lorebook uses the time or random draws.
 * @throws ApiError 400 for a greeting that does not exist, for texts that are too long or have too many macros, and for a prompt
 *   that does not fit the model's context
 * @throws TokenCounterNeeded if tokens must be counted and the request has no counter
 */
export function* compose(request: CompositionRequest): Steps<Composition> {
  yield request.messages.length
  if (request.persona.name !== null) return yield* composeForCharacter(request, request.persona.name)
  if (request.texts === undefined) return yield* composeWithoutCharacter(request)
  // Without a character, a request's persona, note and lorebooks have the same places in the prompt as with a character.
  const { greeting: _greeting, ...others } = request
  return yield* composeForCharacter({ ...others, settings: settingsWithoutCharacter }, nameWithoutCharacter)
}

/** The value of {{char}}, and the prompt settings in place of the operator's, if no character is played. */
const nameWithoutCharacter = 'Assistant'
const settingsWithoutCharacter: PromptSettings = { systemPrompt: '', greeting: 'never' }

/** The prompt of a character. */
function* composeForCharacter(request: CompositionRequest, name: string): Steps<Composition> {
  const { persona, messages, settings, contextWindow } = request
  const card = persona.card ?? cardOf(name)
  const texts = textsOf(card, persona, settings)
  const requestTexts = request.texts ? requestTextsOf(card, persona, settings, request.texts.seesCard) : texts
  const context = expansionContextOf({ ...persona, name }, request)
  const described = request.texts?.persona ?? ''
  if (described !== '')
    context.persona = yield* requestTexts.expand('request/persona', described, context, { persona: '' })
  const firstOwn = messages.findIndex(isOfConversation)
  const ownSystem = firstOwn === -1 ? messages : messages.slice(0, firstOwn)
  const own = firstOwn === -1 ? [] : messages.slice(firstOwn)

  const { index, inserts } = yield* activeGreeting(texts, context, request, own)
  const greeting = inserts ? yield* greetingMessage(texts, context, index ?? 0) : null
  const conversation = greeting ? [greeting, ...own] : own
  context.conversation = conversation.filter(isOfConversation)
  const scanned = new Conversation(context.conversation)
  const lore = yield* findLore(texts, requestTexts, context, scanned, index, request)
  const note = request.texts?.authorNote
  const noted = note ? yield* requestTexts.expand('request/author_note', note.text, context) : ''
  if (note && noted !== '') context.authorNote = { ...note, text: noted }

  const parts = { lore: lore.kept, examples: yield* examplesOf(texts, context), conversation }
  const assemble = (kept: PromptParts) => assembled(texts, context, ownSystem, kept)
  const messagesOf = function* (kept: PromptParts) {
    return (yield* assemble(kept)).messages
  }
  // If the size of the model's context is not known, everything is sent.
  const fitting =
    contextWindow === undefined
      ? parts
      : yield* fitToContext(parts, { ...request, contextWindow, assemble: messagesOf })
  return new Composed(yield* assemble(fitting), lore, parts, fitting, greeting, context)
}

/** A prompt of a character. Only receipts need the sections and the report of lore, so both are made only when they are read. */
class Composed implements Composition {
  readonly messages: readonly Message[]
  readonly dropped: DroppedCounts
  readonly unknownMacros: readonly string[]
  readonly #sections: () => readonly Section[]
  readonly #lore: FoundLore
  readonly #fitting: PromptParts
  readonly #greeting: Message | null

  constructor(
    { messages, sections }: Assembled,
    lore: FoundLore,
    whole: PromptParts,
    fitting: PromptParts,
    greeting: Message | null,
    context: ExpansionContext,
  ) {
    this.messages = messages
    this.dropped = countsOf(lore, whole, fitting)
    this.unknownMacros = [...context.unknown]
    this.#sections = sections
    this.#lore = lore
    this.#fitting = fitting
    this.#greeting = greeting
  }

  get sections(): readonly Section[] {
    return sectionsOf(this.#sections(), this.#fitting, this.#greeting)
  }

  get lore(): readonly LoreReport[] {
    return reportsOf(this.#lore, this.#fitting)
  }
}

/** The prompt without a character: the request's messages. */
function* composeWithoutCharacter(request: CompositionRequest): Steps<Composition> {
  const { messages, contextWindow, overflow } = request
  // The leading system messages are the instructions for the whole conversation, so they are never dropped.
  const first = overflow === undefined ? 0 : messages.findIndex(isOfConversation)
  const leading = first === -1 ? messages : messages.slice(0, first)
  const parts = { lore: [], examples: [], conversation: first === -1 ? [] : messages.slice(first) }
  const assemble = function* ({ conversation }: PromptParts) {
    yield 1
    return [...leading, ...conversation]
  }
  const fitting =
    contextWindow === undefined ? parts : yield* fitToContext(parts, { ...request, contextWindow, assemble })
  const sent = [...leading, ...fitting.conversation]
  return {
    messages: sent,
    sections: [{ section: 'conversation', messages: sent }],
    lore: [],
    dropped: countsOf({ kept: [], dropped: [] }, parts, fitting),
    unknownMacros: [],
  }
}

const nameOnlyCards = new Map<string, Card>()

/** A card with only a name. The same name gives the same object, so that its cached texts are found again. */
function cardOf(name: string): Card {
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

function* assembled(
  texts: CardTexts,
  context: ExpansionContext,
  ownSystem: readonly Message[],
  parts: PromptParts,
): Steps<Assembled> {
  const { lore, examples, conversation } = parts
  const begun = begunReply(conversation)
  const lead = yield* leadOf(texts, context, lore, ownSystem.length > 0)
  const beside = lore.filter(isBesideExamples)
  const before = beside.length === 0 ? [] : yield* loreBeside(texts, context, beside, 'before_examples')
  const after = beside.length === 0 ? [] : yield* loreBeside(texts, context, beside, 'after_examples')
  const length = conversation.filter(isOfConversation).length
  const injections = yield* injectionsOf(texts, context, lore, length)
  // If the request has begun a reply, the model must continue it, so the begun reply comes last. The card's prefills are then
  // ordinary messages before post-history.
  const prefills = begun ? [] : injections.filter(isPrefill)
  const inserted = prefills.length > 0 ? injections.filter((injection) => !isPrefill(injection)) : injections
  const postHistory = yield* postHistoryOf(texts, context, lore)
  const prefill = prefills.map(({ message }) => message.content).join('\n')
  const exampleMessages = examples.reduce((sum, block) => sum + block.length, 0)
  yield (conversation.length + exampleMessages + lore.length) * unitsOfPlacing
  const said = insertInjections(conversation, inserted)
  // `concat` copies whole lists. Iterating over hundreds of example messages would cost more than the rest of this function.
  const messages = listOf(lead.main).concat(
    ownSystem,
    listOf(lead.character),
    before,
    ...examples,
    after,
    begun ? said.filter((message) => message !== begun) : said,
    listOf(postHistory === '' ? null : yield* postHistoryMessage(texts, context, postHistory)),
    listOf(prefill === '' ? null : { role: 'assistant', content: prefill }),
    listOf(begun),
  )
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
function* loreBeside(
  texts: CardTexts,
  context: ExpansionContext,
  lore: readonly Lore[],
  section: 'before_examples' | 'after_examples',
): Steps<readonly Message[]> {
  const beside: Message[] = []
  for (const each of lore) {
    if (each.entry.place.section !== section) continue
    for (const message of yield* loreBesideExamples(texts, context, each)) beside.push(message)
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

function reportsOf({ kept, dropped }: FoundLore, fitting: PromptParts): readonly LoreReport[] {
  const staying = new Set(fitting.lore)
  return [
    ...kept.map((lore) => (staying.has(lore) ? reportOf(lore) : reportOf(lore, 'context'))),
    ...dropped.map(({ lore, reason }) => reportOf(lore, reason)),
  ]
}

function reportOf({ entry, book, keys, body }: Lore, dropped?: DropReason): LoreReport {
  const named = entry.name || (entry.keys[0]?.written ?? `entry ${entry.index + 1}`)
  return {
    entry: named,
    book,
    fired: dropped === undefined,
    ...(keys.length > 0 ? { keys } : {}),
    ...(dropped === undefined ? {} : { dropped }),
    text: body,
    source: entry,
  }
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
