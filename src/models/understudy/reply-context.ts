import type { Card } from '../../characters/cards/card.ts'
import type { LoreSource } from '../../characters/prompt/composition.ts'
import { maxUnits, spend, withFuel } from '../../work/fuel.ts'
import { CardReader, isExample, type Material, type Passage } from './card-passages.ts'
import type { Conversation } from './conversation.ts'
import { indexIn } from './index-in.ts'
import { openings } from './phrases.ts'
import { pick } from './pick.ts'
import { createSearch, type Hit, type Search } from './search.ts'
import { type SmallTalk, smallTalkOf } from './small-talk.ts'
import { userNameMark } from './user-name-mark.ts'
import { comparedSentences, fold, wordsOf } from './words.ts'

/** A card that an understudy has read. */
interface ReadCard {
  readonly reader: CardReader
  readonly material: Material
  readonly search: Search
  /** Passages by the exact words of the question that they answer. */
  readonly answers: ReadonlyMap<string, Passage>
  /**
   * Passages of the card's examples, by the kind of small talk that they answer. The kind `greeting` is not used, because it also
   * contains passages that do not answer small talk.
   */
  readonly smallTalk: ReadonlyMap<SmallTalk, readonly Passage[]>
}

/** What a prompt has of a card, besides its description, personality and scenario. */
export interface PromptParts {
  /** The lore that fired, of all books. */
  readonly lore: readonly FiredLore[]
  /** The number of example blocks that were dropped because they did not fit. */
  readonly droppedExamples: number
}

/** A lorebook entry that fired. */
export interface FiredLore {
  readonly source: LoreSource
  /** The keys that matched; empty for an entry that needs no key. */
  readonly keys: readonly string[]
}

/** Everything that one reply depends on. */
export interface ReplyContext extends ReadCard {
  /** The passages that may be said, because their source is in the prompt. Lore is first, then examples, then the other texts. */
  readonly passages: readonly Passage[]
  /** For each passage of lore, the keys that fired it, in lower case. */
  readonly keys: ReadonlyMap<Passage, readonly string[]>
  readonly conversation: Conversation
  readonly name: string
  /** Null if the user's name is not known. */
  readonly userName: string | null
  readonly seed: number | null
  /** The index of the choice. Choice 0 gets the best answer. */
  readonly choice: number
}

const readCards = new WeakMap<Card, ReadCard>()

/**
 * Reads a card, which takes some milliseconds. The result is cached for as long as the card is in use. Reading has a budget of its
 * own, as in `cardOf`.
 */
export function readCard(card: Card): ReadCard {
  const read = readCards.get(card) ?? withFuel(maxUnits, () => readNow(card))
  readCards.set(card, read)
  return read
}

function readNow(card: Card): ReadCard {
  const reader = new CardReader(card)
  const material = reader.material()
  return { reader, material, search: createSearch(material.passages), ...readCues(material, card) }
}

/** Reads the user's lines in the examples of a card. */
function readCues({ passages }: Material, { name, nickname }: Card): Pick<ReadCard, 'answers' | 'smallTalk'> {
  const answers = new Map<string, Passage>()
  const smallTalk = new Map<SmallTalk, Passage[]>()
  for (const passage of passages) {
    const { cue, source } = passage
    if (cue === '' || !isExample(source)) continue
    const words = plainWords(cue)
    if (!answers.has(words)) answers.set(words, passage)
    const kind = smallTalkOf(cue, [name, nickname]) ?? 'greeting'
    smallTalk.set(kind, [...(smallTalk.get(kind) ?? []), passage])
    spend(unitsOfCue + cue.length * unitsOfLetter)
  }
  return { answers, smallTalk }
}

/** Units of work for each line that is classified as small talk, and for each of its letters. */
const unitsOfCue = 2000
const unitsOfLetter = 50

/** The sentences of passages, as `comparedSentences` returns them. */
const sentencesOfPassages = new WeakMap<Passage, readonly string[]>()

function sentencesOf(passage: Passage): readonly string[] {
  const known = sentencesOfPassages.get(passage) ?? comparedSentences(passage.answer)
  sentencesOfPassages.set(passage, known)
  return known
}

/**
 * Leaves only passages whose source is in the prompt: examples that were not dropped, fired lore of all books, and the card's
 * other texts. A passage with a sentence of a greeting of the card, or of the conversation's opening, is left out too.
 * @param opening the character's message before the user's first message, with `userNameMark` in place of the user's name
 */
export function narrowToPrompt(
  card: ReadCard,
  parts: PromptParts,
  opening: string,
): Pick<ReplyContext, 'passages' | 'keys' | 'search'> {
  const { material, reader } = card
  const fired = new Map(parts.lore.map(({ source, keys }) => [source, keys.map((key) => key.toLowerCase())]))
  // The prompt may have more blocks than the reader has read, because the reader reads only the beginning of long examples.
  const blocks = Math.max(0, material.blocks - parts.droppedExamples)
  const opened = new Set(comparedSentences(opening))
  const isInPrompt = (passage: Passage) => {
    const { source } = passage
    const isSent = typeof source === 'string' || (isExample(source) ? source.block < blocks : fired.has(source.entry))
    return isSent && !sentencesOf(passage).some((sentence) => material.greetings.has(sentence) || opened.has(sentence))
  }
  const own: Passage[] = []
  for (const passage of material.passages) {
    if (isInPrompt(passage)) own.push(passage)
    spend(1 + passage.answer.length * unitsOfTextLetter)
  }
  const known = new Set(
    own.flatMap(({ source }) => (typeof source === 'object' && 'entry' in source ? source.entry : [])),
  )
  const lore = reader.loreOf([...fired.keys()].filter((entry) => !known.has(entry)))
  const others = lore.filter(isInPrompt)
  const searchOthers = others.length === 0 ? null : createSearch(others)
  const passages = [...others, ...own].sort((one, other) => order(one) - order(other))
  const keys = new Map<Passage, readonly string[]>()
  for (const passage of passages) {
    const { source } = passage
    if (typeof source === 'object' && 'entry' in source) keys.set(passage, fired.get(source.entry) ?? [])
  }
  const searched = (question: string): readonly Hit[] => {
    const found = card.search(question).filter(({ passage }) => isInPrompt(passage))
    if (searchOthers === null) return found
    return [...found, ...searchOthers(question)].sort((one, other) => other.score - one.score)
  }
  const hitsOf = new Map<string, readonly Hit[]>()
  return {
    passages,
    keys,
    search(question) {
      const hits = hitsOf.get(question) ?? searched(question)
      hitsOf.set(question, hits)
      return hits
    },
  }
}

function order({ source }: Passage): number {
  return typeof source === 'object' ? (isExample(source) ? 1 : 0) : 2
}

/**
 * The text that is hashed to pick one of several phrases. It does not contain the index of the choice, because each further
 * choice takes the next phrase.
 */
export function pickKeyOf({ seed, conversation }: Pick<ReplyContext, 'seed' | 'conversation'>): string {
  return `${seed ?? ''}/${conversation.said.length}/${conversation.question}`
}

/** The most seeds that give different answers. */
const maxSeeds = 16

/**
 * The rank of an answer, 0 for the best: the index of the choice, plus the seed modulo `maxSeeds`.
 * @param among the number of answers. If there are none, the seed is ignored
 */
export function variantOf({ seed, choice }: Pick<ReplyContext, 'seed' | 'choice'>, among: number): number {
  return among === 0 ? choice : (Math.abs(seed ?? 0) % maxSeeds) + choice
}

/** Picks one of several equally good texts. If there are more choices or seeds than texts, a repeated text gets an opening. */
export function pickVariant(context: ReplyContext, texts: readonly string[]): string {
  const variant = variantOf(context, texts.length)
  const text = texts[variant % texts.length] ?? ''
  return variant < texts.length ? text : `${pick(openings, pickKeyOf({ ...context, seed: null }), variant)} ${text}`
}

/** The words of a question, folded and without punctuation, so that questions can be compared. */
export function plainWords(question: string): string {
  return wordsOf(fold(question))
    .map(({ text }) => text)
    .join(' ')
}

/** Units of work for each letter of a text that is looked for in the conversation. */
const unitsOfTextLetter = 2

/** The items whose texts the character has not said yet. */
export function unsaidOf<T>(items: Iterable<T>, textOf: (item: T) => string, context: ReplyContext): readonly T[] {
  const found: T[] = []
  for (const item of items) {
    const text = textOf(item)
    spend(text.length * unitsOfTextLetter)
    if (!isPartOfOne(context.conversation.said, longestFixedPart(text))) found.push(item)
  }
  return found
}

function isPartOfOne(texts: readonly string[], text: string): boolean {
  for (const each of texts) if (indexIn(each, text) >= 0) return true
  return false
}

/** Picks a phrase that was not said yet. If all phrases were said, picks any phrase. */
export function unsaidPhrase(context: ReplyContext, phrases: readonly string[], key: string, step = 0): string {
  const unsaid = unsaidOf(phrases, String, context)
  return pick(unsaid.length > 0 ? unsaid : phrases, key, step) ?? ''
}

/** The longest part of a phrase without placeholders, which is the same in every use of the phrase. */
function longestFixedPart(phrase: string): string {
  return phrase.split(placeholders).reduce((one, other) => (other.length > one.length ? other : one), '')
}

const placeholders = new RegExp(`%|[,;:]? ?${userNameMark}[.,;:!?]? ?`, 'u')

/** Fills in the user's name. Without a name, forms of address are removed, and elsewhere the name becomes "the visitor". */
export function withUserName(text: string, userName: string | null): string {
  if (!text.includes(userNameMark)) return text
  if (userName !== null) return text.replaceAll(userNameMark, () => userName)
  return text
    .replace(vocativeAtEnd, '')
    .replace(vocativeAlone, '$1')
    .replace(vocativeAtStart, (_, before: string, first: string) => `${before}${first.toUpperCase()}`)
    .replace(nameAtStart, '$1The visitor')
    .replaceAll(userNameMark, 'the visitor')
}

const sentenceStart = '(^|[.!?…]["”’*]?\\s+|\\n|["“*])'
const vocativeAtEnd = new RegExp(`,\\s*${userNameMark}(?=[,.;:!?…)"”*]|\\s*$)`, 'gu')
const vocativeAlone = new RegExp(`${sentenceStart}${userNameMark}[.!?…]+\\s*`, 'gu')
const vocativeAtStart = new RegExp(`${sentenceStart}${userNameMark}[,:;]\\s*(\\p{L})`, 'gu')
const nameAtStart = new RegExp(`${sentenceStart}${userNameMark}`, 'gu')
