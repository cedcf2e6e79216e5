import type { Message } from '../../openai/completion-request.ts'
import type { Steps } from '../../work.ts'
import { readExamples, type Utterance } from '../cards/examples.ts'
import { withoutComments } from '../macros/macros.ts'
import { type CardTexts, Keeper, type Run, system } from './card-texts.ts'
import type { Section, SectionName } from './composition.ts'
import type { Lore } from './found-lore.ts'

/** The messages before the conversation that are the character's, and the parts that they are made of. */
export interface Lead {
  /** The main prompt, when the request has system messages of its own, which follow it; else null. */
  readonly main: Message | null
  /** All else about the character, in one message; null when there is nothing. */
  readonly character: Message | null
  readonly sections: readonly Section[]
}

/** One block of an example dialogue, its separator first. */
export type ExampleBlock = readonly Message[]

const keptLeads = new Keeper<Lead>(32)
const keptExamples = new Keeper<readonly ExampleBlock[]>(1)
const keptBeside = new Keeper<readonly Message[]>(32)
const keptLore = new Keeper<Message>(256)
const keptPostHistory = new Keeper<Message>(8)

/** Units of work of finding the place of one entry, and how many places there are. */
const unitsOfPlaced = 10
const leadSections = 6

/** Main prompt, lore and the character's definition. @param isSplit whether the request's system messages stand between */
export function* leadOf(texts: CardTexts, run: Run, lore: readonly Lore[], isSplit: boolean): Steps<Lead> {
  yield lore.length * unitsOfPlaced
  const placed = lore.filter((each) => leadSection(each) !== null || disables(each))
  // Bodies were expanded before; one that varies makes no lead worth keeping, and what a request brings is never kept.
  const isKept = run.persona === undefined && placed.every(({ entry }) => texts.isKept(entry))
  if (!isKept) return yield* makeLead(texts, run, placed, isSplit)
  const key = `${isSplit}/${placed.map(({ entry }) => texts.numberOf(entry)).join()}`
  return (
    texts.known(keptLeads, key, run) ??
    (yield* texts.keep(keptLeads, key, run, () => makeLead(texts, run, placed, isSplit)))
  )
}

function* makeLead(texts: CardTexts, run: Run, lore: readonly Lore[], isSplit: boolean): Steps<Lead> {
  yield lore.length * unitsOfPlaced * leadSections
  const { card } = texts
  const bodies = (section: LeadSection) =>
    lore
      .filter((each) => leadSection(each) === section)
      .map(({ body }) => body)
      .join('\n')
  const main = yield* mainPrompt(texts, run, !lore.some(({ rules }) => rules.disables?.includes('system_prompt')))
  const rest: readonly (readonly [SectionName, string])[] = [
    ['lore_before_char', bodies('before_char')],
    ['persona', run.persona ?? ''],
    ['lore_before_char', bodies('before_desc')],
    ['description', yield* texts.expand('description', card.description, run)],
    ['lore_after_char', bodies('after_desc')],
    ['personality', yield* texts.expand('personality', card.personality, run)],
    ['lore_after_char', bodies('personality')],
    ['scenario', yield* texts.expand('scenario', card.scenario, run)],
    ['lore_after_char', bodies('scenario')],
    ['lore_after_char', bodies('after_char')],
  ]
  const sections = [['system_prompt', main] as const, ...rest]
    .filter(([, text]) => text !== '')
    .map(([section, text]) => ({ section, text }))
  const joined = sections
    .filter(({ section }) => !isSplit || section !== 'system_prompt')
    .map(({ text }) => text)
    .join('\n\n')
  return {
    main: isSplit && main !== '' ? system(main) : null,
    character: joined === '' ? null : system(joined),
    sections,
  }
}

type LeadSection = 'before_char' | 'before_desc' | 'after_desc' | 'personality' | 'scenario' | 'after_char'

/** Where in the lead an entry stands; null for one that stands elsewhere. */
function leadSection({ entry, rules }: Lore): LeadSection | null {
  if (rules.position) return rules.position
  if (rules.depth !== undefined || rules.reverseDepth !== undefined) return null
  const { section } = entry.place
  return section === 'before_char' || section === 'after_char' ? section : null
}

function disables({ rules }: Lore): boolean {
  return rules.disables !== undefined
}

/** The card's main prompt, else the operator's. */
function* mainPrompt(texts: CardTexts, run: Run, allowsOperators: boolean): Steps<string> {
  const { card, settings } = texts
  const original = allowsOperators ? yield* texts.expand('operator_prompt', settings.systemPrompt, run) : ''
  const own = card.systemPrompt
  return own.trim() === '' ? original : yield* overriding(texts, run, 'system_prompt', own, original)
}

/** The card's text for after the conversation, else the operator's. */
export function* postHistoryOf(texts: CardTexts, run: Run, lore: readonly Lore[]): Steps<string> {
  const { card, settings } = texts
  const isOff = lore.some(({ rules }) => rules.disables?.includes('post_history_instructions'))
  const prompt = settings.postHistoryPrompt ?? ''
  const original = isOff || prompt === '' ? '' : yield* texts.expand('operator_post_history', prompt, run)
  const own = card.postHistory ?? ''
  return own.trim() === '' ? original : yield* overriding(texts, run, 'post_history', own, original)
}

/** What stands after the conversation, as a message. */
export function postHistoryMessage(texts: CardTexts, run: Run, text: string): Steps<Message> {
  return texts.keep(keptPostHistory, text, run, () => made(() => system(text)))
}

/** The card's own text in place of the operator's, which it may have in it. */
function overriding(texts: CardTexts, run: Run, key: string, own: string, original: string): Steps<string> {
  return texts.expand(`${key}/${original === ''}`, own, run, { original })
}

/** The example dialogues, block by block, each behind a separator. */
export function examplesOf(texts: CardTexts, run: Run): Steps<readonly ExampleBlock[]> {
  return texts.keep(keptExamples, 'examples', run, () => makeExamples(texts, run))
}

/** Units of work of the messages of one block. */
const unitsOfBlock = 100

function* makeExamples(texts: CardTexts, run: Run): Steps<readonly ExampleBlock[]> {
  // Comments may span lines; all else is expanded line by line, so that no name can begin an utterance.
  const examples = yield* withoutComments(texts.card.examples)
  return yield* blocksOf(texts, examples, (line) => texts.expandLine(line, run))
}

/** A text as example dialogues. @param expand expands the macros of a line; without it they are expanded already */
function* blocksOf(
  texts: CardTexts,
  text: string,
  expand?: (line: string) => Steps<string>,
): Steps<readonly ExampleBlock[]> {
  const { card, names } = texts
  const speakers = { ...names, character: card.name, nickname: names.character }
  const blocks: ExampleBlock[] = []
  for (const block of yield* readExamples(text, speakers, expand)) {
    const said = block.filter((utterance) => utterance.text !== '')
    if (said.length > 0) blocks.push([system('[Example Chat]'), ...said.map(exampleMessage)])
    yield unitsOfBlock * (1 + said.length)
  }
  return blocks
}

/** A body beside the example dialogues: one more of them where it names a speaker, else a message of its own. */
export function* loreBesideExamples(texts: CardTexts, run: Run, lore: Lore): Steps<readonly Message[]> {
  const make = () => makeLoreBeside(texts, run, lore)
  if (!texts.isKept(lore.entry)) return yield* make()
  return yield* texts.keep(keptBeside, texts.numberOf(lore.entry), run, make)
}

function* makeLoreBeside(texts: CardTexts, run: Run, lore: Lore): Steps<readonly Message[]> {
  const messages = (yield* blocksOf(texts, lore.body)).flat()
  const isDialogue = messages.some(({ name }) => name !== undefined)
  return isDialogue ? messages : [yield* loreMessage(texts, run, lore, 'system')]
}

function exampleMessage({ speaker, text }: Utterance): Message {
  if (speaker === null) return system(text)
  return { ...system(text), name: speaker === 'user' ? 'example_user' : 'example_assistant' }
}

/** A body as a message of its own. */
export function* loreMessage(texts: CardTexts, run: Run, { entry, body }: Lore, role: Message['role']): Steps<Message> {
  const make = () => ({ role, content: body })
  if (!texts.isKept(entry)) return make()
  return yield* texts.keep(keptLore, `${role}/${texts.numberOf(entry)}`, run, () => made(make))
}

/** Units of work of one message. */
const unitsOfMessage = 30

/** Something that is made at once, as a step. */
export function* made<T>(make: () => T): Steps<T> {
  yield unitsOfMessage
  return make()
}
