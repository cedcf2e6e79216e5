import { type Message, textOf } from '../../openai/completion-request.ts'
import { spend } from '../../work/fuel.ts'
import { readExamples, type Utterance } from '../cards/examples.ts'
import { withoutComments } from '../macros/macros.ts'
import { type CardTexts, type ExpansionContext, type Kept, system } from './card-texts.ts'
import type { Section, SectionName } from './composition.ts'
import type { Lore } from './found-lore.ts'

/** The system messages about the character, before the conversation, and the sections from which these messages are made. */
export interface Lead {
  /** The main prompt, if system messages of the request follow it. Otherwise null, and `character` contains the main prompt. */
  readonly main: Message | null
  /** Everything else about the character, in one message; null if there is nothing. */
  readonly character: Message | null
  readonly sections: readonly Section[]
}

/** One block of an example dialogue; the first message is its separator. */
export type ExampleBlock = readonly Message[]

/**
 * Leads and example dialogues that are the same in every request of a user. If the dialogues were not kept, a whole completion would
 * cost 151 % more CPU time (bench/figures.md).
 */
const leads = new WeakMap<CardTexts, Map<string, Kept<Lead>>>()
const examples = new WeakMap<CardTexts, Map<string, Kept<readonly ExampleBlock[]>>>()

function keptIn<T>(all: WeakMap<CardTexts, Map<string, Kept<T>>>, texts: CardTexts): Map<string, Kept<T>> {
  const known = all.get(texts) ?? new Map<string, Kept<T>>()
  all.set(texts, known)
  return known
}

/** Units of work to compare one entry with one place, and the number of places in the lead. */
const unitsOfPlaced = 10
const leadSections = 6

/** The system messages before the conversation. @param isSplit whether system messages of the request follow the main prompt */
export function leadOf(texts: CardTexts, context: ExpansionContext, lore: readonly Lore[], isSplit: boolean): Lead {
  spend(lore.length * unitsOfPlaced)
  const placed = lore.filter((each) => leadSection(each) !== null || disables(each))
  // A lead is not kept if it contains lore that varies between requests, or the user's persona.
  const isKept = context.persona === undefined && placed.every(({ entry }) => texts.isKept(entry))
  const make = () => makeLead(texts, context, placed, isSplit)
  if (!isKept) return make()
  // The key contains the rules of an entry, because these rules may depend on whether the greeting of the request is known.
  const rulesOf = ({ rules }: Lore) => `${rules.position ?? ''}${rules.disables?.join('+') ?? ''}`
  const key = `${isSplit}/${placed.map((each) => `${texts.numberOf(each.entry)}${rulesOf(each)}`).join()}`
  // The sections and the messages share the texts of the lore.
  const lengthOf = ({ sections }: Lead) => 2 * sections.reduce((sum, { text = '' }) => sum + text.length, 0)
  return texts.keep(keptIn(leads, texts), key, context, make, lengthOf)
}

function makeLead(texts: CardTexts, context: ExpansionContext, lore: readonly Lore[], isSplit: boolean): Lead {
  spend(lore.length * unitsOfPlaced * leadSections)
  const { card } = texts
  const bodies = (section: LeadSection) =>
    lore
      .filter((each) => leadSection(each) === section)
      .map(({ body }) => body)
      .join('\n')
  const main = mainPrompt(texts, context, !lore.some(({ rules }) => rules.disables?.includes('system_prompt')))
  const rest: readonly (readonly [SectionName, string])[] = [
    ['lore_before_char', bodies('before_char')],
    ['persona', context.persona ?? ''],
    ['lore_before_char', bodies('before_desc')],
    ['description', texts.expand('description', card.description, context)],
    ['lore_after_char', bodies('after_desc')],
    ['personality', texts.expand('personality', card.personality, context)],
    ['lore_after_char', bodies('personality')],
    ['scenario', texts.expand('scenario', card.scenario, context)],
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

/** The place of an entry in the lead; null when its place is elsewhere. */
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
function mainPrompt(texts: CardTexts, context: ExpansionContext, allowsOperators: boolean): string {
  const { card, settings } = texts
  const key = 'operator_prompt'
  const text = allowsOperators ? texts.expand(key, settings.systemPrompt, context) : ''
  const own = card.systemPrompt
  return own.trim() === '' ? text : overriding(texts, context, 'system_prompt', own, { key, text })
}

/** The card's text after the conversation, else the operator's. */
export function postHistoryOf(texts: CardTexts, context: ExpansionContext, lore: readonly Lore[]): string {
  const { card, settings } = texts
  const isOff = lore.some(({ rules }) => rules.disables?.includes('post_history_instructions'))
  const prompt = settings.postHistoryPrompt ?? ''
  const key = 'operator_post_history'
  const text = isOff || prompt === '' ? '' : texts.expand(key, prompt, context)
  const own = card.postHistory ?? ''
  return own.trim() === '' ? text : overriding(texts, context, 'post_history', own, { key, text })
}

/** A text of the operator in this request, and its key among the kept texts. */
interface Original {
  readonly key: string
  readonly text: string
}

/** The card's text in place of the operator's, which the card can insert with `{{original}}`. */
function overriding(texts: CardTexts, context: ExpansionContext, key: string, own: string, original: Original): string {
  const more = { original: original.text }
  // If the operator's text varies between requests (`{{persona}}`, `{{time}}`), a card's text that contains it varies too.
  const isSame = original.text === '' || texts.isKept(original.key)
  if (!isSame) return texts.expandLine(own, context, more).trim()
  return texts.expand(`${key}/${original.text === ''}`, own, context, more)
}

/** The example dialogues, in blocks that begin with a separator. */
export function examplesOf(texts: CardTexts, context: ExpansionContext): readonly ExampleBlock[] {
  const lengthOf = (blocks: readonly ExampleBlock[]) =>
    blocks.flat().reduce((sum, message) => sum + lengthOfMessage + textOf(message).length, 0)
  return texts.keep(keptIn(examples, texts), '', context, () => makeExamples(texts, context), lengthOf)
}

/** Units of work for each message of a block, and for its separator. */
const unitsOfBlock = 100
/** The characters that count for a message, besides its text. */
const lengthOfMessage = 100

function makeExamples(texts: CardTexts, context: ExpansionContext): readonly ExampleBlock[] {
  // Comments may span lines. Other macros are expanded line by line, so that a line break in a name cannot begin an utterance.
  const examples = withoutComments(texts.card.examples)
  return blocksOf(texts, examples, (line) => texts.expandLine(line, context))
}

/** A text as example dialogues. @param expand expands the macros of a line; omitted if the text has expanded macros already */
function blocksOf(texts: CardTexts, text: string, expand?: (line: string) => string): readonly ExampleBlock[] {
  const { card, names } = texts
  const speakers = { ...names, character: card.name, nickname: names.character }
  const blocks: ExampleBlock[] = []
  for (const block of readExamples(text, speakers, expand)) {
    const said = block.filter((utterance) => utterance.text !== '')
    if (said.length > 0) blocks.push([system('[Example Chat]'), ...said.map(exampleMessage)])
    spend(unitsOfBlock * (1 + said.length))
  }
  return blocks
}

/** Lore next to the example dialogues: one more dialogue if its body names a speaker, otherwise a separate message. */
export function loreBesideExamples(texts: CardTexts, { body }: Lore): readonly Message[] {
  const messages = blocksOf(texts, body).flat()
  const isDialogue = messages.some(({ name }) => name !== undefined)
  return isDialogue ? messages : [{ role: 'system', content: body }]
}

function exampleMessage({ speaker, text }: Utterance): Message {
  if (speaker === null) return system(text)
  return Object.freeze({ ...system(text), name: speaker === 'user' ? 'example_user' : 'example_assistant' })
}
