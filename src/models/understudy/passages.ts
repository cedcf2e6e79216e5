import type { Card } from '../../characters/cards/card.ts'
import { readExamples, type Utterance } from '../../characters/cards/examples.ts'
import type { LoreEntry } from '../../characters/lore/entry.ts'
import { clockAt } from '../../characters/macros/clock.ts'
import { expandMacros } from '../../characters/macros/macros.ts'
import { seededRandom } from '../../characters/macros/seeded-random.ts'
import type { LoreSource } from '../../characters/prompt/composition.ts'
import { maxUnits, spend, withFuel } from '../../work/fuel.ts'
import { createSearch, wordsOf } from './search.ts'

/** A text that a character can say. */
export interface Passage {
  readonly id: number
  /** What the text answers: the user's line before an example, or the name and the keys of a lorebook entry; else empty. */
  readonly cue: string
  /** The words, with `userMark` in place of the user's name. */
  readonly text: string
  readonly source: Source
  /** Whether the text is in the third person, so that the character quotes it. */
  readonly isQuoted: boolean
  /** The sentences of the text, for comparisons with what the character has said. */
  readonly sentences: readonly string[]
}

/** The source of a passage. A passage may be said only if its source is in the prompt, and the card's prose always is. */
export type Source = { readonly block: number } | { readonly entry: LoreSource } | 'prose'

/** The passages of a card that an understudy has read. */
export interface ReadCard {
  /** First prose of the card, then its examples, then lore. */
  readonly passages: readonly Passage[]
  readonly search: ReturnType<typeof createSearch<Passage>>
  /** The passages by the words of their cues, without the character's names. */
  readonly answers: ReadonlyMap<string, readonly Passage[]>
  readonly withoutNames: (question: string) => string
  /** The number of blocks in the example dialogues. */
  readonly blocks: number
  /** The sentences of the greetings. The character has said a greeting already. */
  readonly greeted: ReadonlySet<string>
  /** Reads those of the lore that are not among the passages: lore of other books, and lore beyond the bounds. */
  readonly readLore: (sources: readonly LoreSource[]) => readonly Passage[]
}

/** Other names that cards have for the user, at the start of a line. */
const otherUsers = /^[ \t]*(?:\*\*)?(?:user|you|anon|human|player)(?:\*\*)?(?=[:：])/gim

/** Stands for the user's name in the texts of a card, so that a card is read only once for all users. */
export const userMark = '\u{F0000}'

/** Bounds of the texts that are read, which bound the search index. Real cards are far smaller. */
const maxPassages = 2000
const maxTextLength = 100_000
const maxPassageLength = 4000
const maxCueLength = 2000
/** Sentences of a card and of lore are joined to passages of about so many letters. */
const maxProseLength = 160
const maxLoreLength = 420
const maxNames = 12
/** Units of work for each text that is read, and for each of its letters. */
const unitsOfText = 500
const unitsOfLetter = 20

const readCards = new WeakMap<Card, ReadCard>()

/** Reads a card, which takes some milliseconds. The result is kept as long as the card, so it has a budget of its own. */
export function readCard(card: Card): ReadCard {
  const read = readCards.get(card) ?? withFuel(maxUnits, () => readNow(card))
  readCards.set(card, read)
  return read
}

function readNow(card: Card): ReadCard {
  const reader = new CardReader(card)
  const blocks = reader.blocksOf(card.examples)
  const found = [card.description, card.personality].flatMap((text) => reader.passagesIn(text, 'prose', isNotOwn))
  found.push(...reader.passagesIn(card.scenario, 'prose', reader.isAbout))
  for (const [block, utterances] of blocks.entries()) found.push(...answersIn(utterances, { block }))
  const known = new Set<LoreSource>()
  for (const { index } of card.book?.entries ?? []) {
    if (found.length >= maxPassages) break
    found.push(...reader.loreOf(index))
    known.add(index)
  }
  const passages = numbered(found)
  return {
    passages,
    search: createSearch(passages),
    answers: Map.groupBy(passages, ({ cue }) => reader.withoutNames(cue)),
    withoutNames: reader.withoutNames,
    blocks: blocks.length,
    greeted: new Set(card.greetings.flatMap((greeting) => sentencesOf(reader.expanded(greeting)))),
    readLore: (sources) => numbered(sources.flatMap((source) => (known.has(source) ? [] : reader.loreOf(source)))),
  }
}

type Found = Omit<Passage, 'id' | 'sentences'>

/** Whether a sentence of the card is not in the first person, so that the character quotes it. */
function isNotOwn(sentence: string): boolean {
  return !/\b(?:I|I'm|I've|me|my)\b/.test(sentence)
}

class CardReader {
  /** The character's name, its nickname, and the words of the name. */
  readonly #name: RegExp
  readonly #card: Card
  readonly #ownLore: ReadonlyMap<number, LoreEntry>
  readonly #speakers: { readonly character: string; readonly user: string }

  constructor(card: Card) {
    this.#card = card
    this.#ownLore = new Map(card.book?.entries.map((entry) => [entry.index, entry]))
    this.#speakers = { character: card.nickname || card.name, user: userMark }
    const words = card.name.split(/\s+/).filter(({ length }) => length > 2)
    const names = [card.nickname, card.name, ...words.slice(0, maxNames)].filter((name) => name !== '')
    const escaped = names.map((name) => name.replace(/[^\p{L}\p{N}\s]/gu, '\\$&')).join('|') || '(?!)'
    this.#name = new RegExp(`(?<![\\p{L}\\p{N}])(?:${escaped})(?![\\p{L}\\p{N}])`, 'gi')
  }

  /** The folded words of a text, without the character's names, which say nothing about a topic. */
  readonly withoutNames = (text: string) => wordsOf(text.replace(this.#name, ' ')).join(' ')

  /** Whether a sentence of the scenario or of lore is about the character, so that the character quotes it. */
  readonly isAbout = (sentence: string) => isNotOwn(sentence) && sentence.search(this.#name) >= 0

  /** Expands macros. Their values depend only on the card, because the same request gets the same answer. */
  expanded(text: string): string {
    const { name } = this.#card
    spend(unitsOfText + text.length * unitsOfLetter)
    const values = { ...this.#speakers, seed: name, random: seededRandom(name), clock: clockAt(new Date(0)) }
    return expandMacros(text.slice(0, maxTextLength).replaceAll('\r', ''), values).trim()
  }

  /** The blocks of a dialogue. */
  blocksOf(text: string): readonly (readonly Utterance[])[] {
    const lines = this.expanded(text).replace(otherUsers, userMark)
    const names = { ...this.#speakers, character: this.#card.name, nickname: this.#speakers.character }
    return readExamples(lines, names).filter((block) => block.some(({ text: said }) => said !== ''))
  }

  /**
   * The passages of a text that is mainly prose: its sentences, and the character's lines of its dialogues. A line of the user and
   * the paragraph after it are left out.
   */
  passagesIn(text: string, source: Source, isQuoted: (sentence: string) => boolean): readonly Found[] {
    const found: Found[] = []
    let isUsers = false
    for (const block of this.blocksOf(text.replace(/\n\s*\n/g, '\n<START>\n'))) {
      const [first, ...spoken] = block
      if (first?.speaker === null && !isUsers) {
        for (const part of partsOf(first.text, source === 'prose' ? maxProseLength : maxLoreLength))
          found.push({ cue: '', text: part, source, isQuoted: isQuoted(part) })
      }
      isUsers = (spoken.at(-1) ?? first)?.speaker === 'user'
      found.push(...answersIn(block, source))
    }
    return found
  }

  /** The passages of a lorebook entry: of this card by its index, or of another book. */
  loreOf(source: LoreSource): readonly Found[] {
    const entry = typeof source === 'number' ? this.#ownLore.get(source) : source
    if (!entry) return []
    const keys = entry.keys.map((key) => (typeof key === 'string' ? key : (key.text ?? '')))
    const title = this.expanded([entry.name, ...keys].join('\n').slice(0, maxCueLength))
    const passages = this.passagesIn(entry.body, { entry: source }, this.isAbout)
    return passages.map((passage) => ({ ...passage, cue: `${title}\n${passage.cue}`.trim() }))
  }
}

/** The character's lines of a dialogue, each with the user's line before it. */
function answersIn(block: readonly Utterance[], source: Source): readonly Found[] {
  return block.flatMap(({ speaker, text }, index) => {
    if (speaker !== 'character') return []
    const before = block[index - 1]
    const cue = before?.speaker === 'user' ? before.text.slice(0, maxCueLength) : ''
    return { cue, text, source, isQuoted: false }
  })
}

/** A sentence for the model and not for the user. */
const instruction =
  /\b(?:must|(?:never|always|do not|don't) (?:write|break|answer|stay)|respond|roleplay|rp|ooc|system (?:note|prompt)|your (?:reply|replies|responses?)|(?:each|every|next) (?:reply|response|message))\b/i

/** Headings, marks of lists, and bold marks. */
const markdown = /^#.*$|^[ \t]*[-*•] |\*\*/gm

/** Joins the sentences of a text to parts of about this length, without sentences for the model. */
function partsOf(text: string, maxLength: number): readonly string[] {
  const parts: string[] = []
  for (const each of text.replace(markdown, '').split(/(?<=[.!?]["”’*)]{0,3})\s+|\n+|(?<=[。！？])/u)) {
    const sentence = each.trim()
    if (!/[\p{L}\p{N}]{2}/u.test(sentence) || instruction.test(sentence)) continue
    const last = parts.at(-1)
    if (last !== undefined && last.length + sentence.length < maxLength)
      parts[parts.length - 1] = `${last}${/[\p{L}\p{N})]$/u.test(last) ? ';' : ''} ${sentence}`
    else parts.push(sentence)
  }
  return parts
}

/** Numbers passages. Leaves out duplicates, and passages beyond the bounds. */
function numbered(found: readonly Found[]): readonly Passage[] {
  const known = new Set([''])
  const passages: Passage[] = []
  for (const passage of found) {
    const { text } = passage
    spend(text.length)
    if (passages.length === maxPassages || text.length > maxPassageLength || known.has(text)) continue
    known.add(text)
    passages.push({ ...passage, id: passages.length, sentences: sentencesOf(text) })
  }
  return passages
}

/** The minimum letters of a sentence that is not said twice. A shorter sentence, such as "I'm Fern.", may be said again. */
const minSentenceLength = 12

/** The sentences of a text in lower case and without punctuation, for comparisons; of a short text, the whole text. */
export function sentencesOf(text: string): readonly string[] {
  spend(text.length)
  const plain = (part: string) => part.replace(/[^\p{L}\p{N}]+/gu, ' ').trim()
  const lower = text.toLowerCase()
  const sentences = lower.split(/[.!?…。！？*\n"“”]+/).map(plain)
  const long = sentences.filter(({ length }) => length >= minSentenceLength)
  return long.length > 0 ? long : [plain(lower)]
}
