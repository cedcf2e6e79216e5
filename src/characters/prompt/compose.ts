import type { Message } from '../../openai/completion-request.ts'
import type { Steps } from '../../work.ts'
import type { Card } from '../cards/card.ts'
import type { DropReason } from '../lore/book-scan.ts'
import { begunReply, Conversation } from '../lore/conversation.ts'
import { maxExpansionLength, tooLarge } from '../macros/macros.ts'
import { type CardTexts, type Run, requestTextsOf, runOf, textsOf } from './card-texts.ts'
import type { Composition, CompositionRequest, DroppedCounts, LoreReport, Section } from './composition.ts'
import { fitted, type Material } from './fit-context.ts'
import { type FoundLore, findLore, type Lore } from './found-lore.ts'
import { activeGreeting, greetingMessage } from './greetings.ts'
import { injectionsOf, isOfConversation, isPrefill, weave } from './injections.ts'
import { examplesOf, leadOf, loreBesideExamples, postHistoryMessage, postHistoryOf } from './segments.ts'
import type { PromptSettings } from './settings.ts'

/** Characters that a card may bring into one prompt. */
const maxPromptLength = 8 * maxExpansionLength

/**
 * Composes what the model is told, in the order of `docs/cards.md`: main prompt, the request's own system messages,
 * lore and the character's definition, example dialogues, the conversation with what stands at a depth, post-history.
 * It is pure but for what it remembers: equal requests give equal messages, unless the card draws lots.
 * @throws ApiError 400 for a greeting that there is not, and for a prompt that does not fit the model's context
 * @throws CountNeeded when tokens must be counted and the request has no counter
 */
export function* compose(request: CompositionRequest): Steps<Composition> {
  yield request.messages.length
  if (request.persona.name !== null) return yield* played(request, request.persona.name)
  if (request.texts === undefined) return yield* unplayed(request)
  // What a request brings has its place where nobody is played, too.
  const { greeting: _greeting, ...others } = request
  return yield* played({ ...others, settings: nobodysSettings }, nobodysName)
}

/** What {{char}} is, and what the operator says, where nobody is played. */
const nobodysName = 'Assistant'
const nobodysSettings: PromptSettings = { systemPrompt: '', greeting: 'never' }

/** What goes to a model when a character is played. */
function* played(request: CompositionRequest, name: string): Steps<Composition> {
  const { persona, messages, settings, contextWindow } = request
  const card = persona.card ?? cardOf(name)
  const texts = textsOf(card, persona, settings)
  const brought = request.texts ? requestTextsOf(card, persona, settings, request.texts.seesCard) : texts
  const run = runOf({ ...persona, name }, request)
  const described = request.texts?.persona ?? ''
  if (described !== '') run.persona = yield* brought.expand('request/persona', described, run, { persona: '' })
  const firstOwn = messages.findIndex(isOfConversation)
  const ownSystem = firstOwn === -1 ? messages : messages.slice(0, firstOwn)
  const own = firstOwn === -1 ? [] : messages.slice(firstOwn)

  const { index, inserts } = yield* activeGreeting(texts, run, request, own)
  const greeting = inserts ? yield* greetingMessage(texts, run, index ?? 0) : null
  const conversation = greeting ? [greeting, ...own] : own
  run.conversation = conversation.filter(isOfConversation)
  const scanned = new Conversation(run.conversation)
  const lore = yield* findLore(texts, brought, run, scanned, index, request)
  const note = request.texts?.authorNote
  const noted = note ? yield* brought.expand('request/author_note', note.text, run) : ''
  if (note && noted !== '') run.authorNote = { ...note, text: noted }

  const material = { lore: lore.kept, examples: yield* examplesOf(texts, run), conversation }
  const assemble = (kept: Material) => assembled(texts, run, ownSystem, kept)
  const messagesOf = function* (kept: Material) {
    return (yield* assemble(kept)).messages
  }
  // All of it fits where nobody knows how much does.
  const fitting =
    contextWindow === undefined
      ? material
      : yield* fitted(material, { ...request, contextWindow, assemble: messagesOf })
  return new Composed(yield* assemble(fitting), lore, material, fitting, greeting, run)
}

/** A prompt of a character; what only a receipt wants of it is made when it is asked for. */
class Composed implements Composition {
  readonly messages: readonly Message[]
  readonly dropped: DroppedCounts
  readonly unknownMacros: readonly string[]
  readonly #sections: () => readonly Section[]
  readonly #lore: FoundLore
  readonly #fitting: Material
  readonly #greeting: Message | null

  constructor(
    { messages, sections }: Assembled,
    lore: FoundLore,
    whole: Material,
    fitting: Material,
    greeting: Message | null,
    run: Run,
  ) {
    this.messages = messages
    this.dropped = countsOf(lore, whole, fitting)
    this.unknownMacros = [...run.unknown]
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

/** What goes to a model when nobody is played: the request's messages. */
function* unplayed(request: CompositionRequest): Steps<Composition> {
  const { messages, contextWindow } = request
  const material = { lore: [], examples: [], conversation: messages }
  const assemble = function* ({ conversation }: Material) {
    yield 1
    return conversation
  }
  const fitting =
    contextWindow === undefined ? material : yield* fitted(material, { ...request, contextWindow, assemble })
  return {
    messages: fitting.conversation,
    sections: [{ section: 'conversation', messages: fitting.conversation }],
    lore: [],
    dropped: countsOf({ kept: [], dropped: [] }, material, fitting),
    unknownMacros: [],
  }
}

const namedCards = new Map<string, Card>()

/** A card with nothing but a name, the same one for the same name, so that what is made of it is kept. */
function cardOf(name: string): Card {
  const known = namedCards.get(name)
  if (known) return known
  const empty = { nickname: '', description: '', personality: '', scenario: '', systemPrompt: '', examples: '' }
  const made = { name, ...empty, greetings: [''] }
  if (namedCards.size >= 200) namedCards.clear()
  namedCards.set(name, made)
  return made
}

interface Assembled {
  readonly messages: readonly Message[]
  /** All but the greeting and the conversation, each with its place among them. */
  readonly sections: () => readonly Section[]
}

function* assembled(texts: CardTexts, run: Run, ownSystem: readonly Message[], material: Material): Steps<Assembled> {
  const { lore, examples, conversation } = material
  const begun = begunReply(conversation)
  const lead = yield* leadOf(texts, run, lore, ownSystem.length > 0)
  const beside = lore.filter(isBesideExamples)
  const before = beside.length === 0 ? [] : yield* loreBeside(texts, run, beside, 'before_examples')
  const after = beside.length === 0 ? [] : yield* loreBeside(texts, run, beside, 'after_examples')
  const length = conversation.filter(isOfConversation).length
  const injections = yield* injectionsOf(texts, run, lore, length)
  // A reply that the request has begun is gone on with: a prefill of the card's stands before it like all else at depth 0.
  const prefills = begun ? [] : injections.filter(isPrefill)
  const woven = prefills.length > 0 ? injections.filter((injection) => !isPrefill(injection)) : injections
  const postHistory = yield* postHistoryOf(texts, run, lore)
  const prefill = prefills.map(({ message }) => message.content).join('\n')
  const blocks = examples.flat()
  yield (conversation.length + blocks.length + lore.length) * unitsOfPlacing
  const said = weave(conversation, woven)
  // Lists are joined, not spread: there are hundreds of example messages, and to go over them one by one costs more than all else here.
  const messages = listOf(lead.main).concat(
    ownSystem,
    listOf(lead.character),
    before,
    blocks,
    after,
    begun ? said.filter((message) => message !== begun) : said,
    listOf(postHistory === '' ? null : yield* postHistoryMessage(texts, run, postHistory)),
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
    add('examples', blocks)
    for (const section of ['lore_at_depth', 'author_note', 'depth_note'] as const) {
      add(
        section,
        woven.filter((injection) => injection.section === section).map(({ message }) => message),
      )
    }
    if (postHistory !== '') sections.push({ section: 'post_history', text: postHistory })
    if (prefill !== '') sections.push({ section: 'prefill', text: prefill })
    return sections
  }
  return { messages, sections: list }
}

/** Units of work of putting one message or entry into its place. */
const unitsOfPlacing = 10

/** A list of one message, or of none. */
function listOf(message: Message | null | undefined): readonly Message[] {
  return message ? [message] : []
}

/** Whether an entry stands beside the example dialogues. */
function isBesideExamples({ entry: { place }, rules }: Lore): boolean {
  return (place.section === 'before_examples' || place.section === 'after_examples') && !isPlacedByRule(rules)
}

/** The lore that stands on one side of the example dialogues. */
function* loreBeside(
  texts: CardTexts,
  run: Run,
  lore: readonly Lore[],
  section: 'before_examples' | 'after_examples',
): Steps<readonly Message[]> {
  const beside: Message[] = []
  for (const each of lore) {
    if (each.entry.place.section !== section) continue
    for (const message of yield* loreBesideExamples(texts, run, each)) beside.push(message)
  }
  return beside
}

function isPlacedByRule({ position, depth, reverseDepth }: Lore['rules']): boolean {
  return position !== undefined || depth !== undefined || reverseDepth !== undefined
}

function sectionsOf(
  sections: readonly Section[],
  { conversation }: Material,
  greeting: Message | null,
): readonly Section[] {
  const rest = conversation.filter((message) => message !== greeting)
  return [
    ...sections,
    ...(rest.length < conversation.length && greeting ? [{ section: 'greeting' as const, messages: [greeting] }] : []),
    ...(rest.length > 0 ? [{ section: 'conversation' as const, messages: rest }] : []),
  ]
}

function reportsOf({ kept, dropped }: FoundLore, fitting: Material): readonly LoreReport[] {
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

/** Reasons for which an entry is missed that had its place in the prompt; lots and groups are the card's own will. */
const lossy: ReadonlySet<DropReason> = new Set(['budget', 'limit', 'context'])

function countsOf(lore: FoundLore, whole: Material, fitting: Material): DroppedCounts {
  return {
    lore: whole.lore.length - fitting.lore.length + lore.dropped.filter(({ reason }) => lossy.has(reason)).length,
    examples: whole.examples.length - fitting.examples.length,
    messages: whole.conversation.length - fitting.conversation.length,
  }
}
