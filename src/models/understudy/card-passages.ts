import type { Card } from '../../characters/cards/card.ts'
import { readExamples, type Utterance } from '../../characters/cards/examples.ts'
import type { LoreEntry } from '../../characters/lore/entry.ts'
import { clockAt } from '../../characters/macros/clock.ts'
import { expandMacros } from '../../characters/macros/macros.ts'
import { seededRandom } from '../../characters/macros/seeded-random.ts'
import type { LoreSource, OtherEntry } from '../../characters/prompt/composition.ts'
import { spend } from '../../work/fuel.ts'
import { clausesOf, inFirstPerson, type Subject, subjectOf } from './first-person.ts'
import { isOfPersonality, personalitySaid, trait } from './traits.ts'
import { userNameMark } from './user-name-mark.ts'
import { comparedSentences, wordsOf } from './words.ts'

/** A text that a character can say, and the texts that a search compares with the question. */
export interface Passage {
  readonly id: number
  /** The user's line before an example, the name and the one-word keys of a lorebook entry, or the name of a trait. */
  readonly cue: string
  /**
   * The lorebook entry's keys of several words, one on each line. They have less weight than the cue, because a single word of a
   * key may match.
   */
  readonly hint: string
  readonly answer: string
  /** The source. A passage may be said only if its source is in the prompt. */
  readonly source: Source
}

/**
 * The source of a passage: an example block (its number), a lorebook entry, description and personality (`self`), or the scenario
 * (`scene`).
 */
export type Source = { readonly block: number } | { readonly entry: LoreSource } | 'self' | 'scene'

/** The texts of a card that an understudy can say. `userNameMark` stands for the user's name. */
export interface Material {
  /** The sentences of the greetings, as `comparedSentences` returns them. The character has said a greeting already. */
  readonly greetings: ReadonlySet<string>
  readonly passages: readonly Passage[]
  /** The number of blocks in the example dialogues. */
  readonly blocks: number
  /** Actions of the character in the card, between asterisks. */
  readonly actions: readonly string[]
}

/** Bounds of the texts that are read. They bound the search index. Real cards are far smaller. */
const maxPassages = 2000
const maxAnswerLength = 4000
const maxCueLength = 2000
const maxTextLength = 20_000
const maxExamplesLength = 100_000
const maxGreetingLength = 100_000
const maxLetters = 2_000_000
const maxActions = 50
/** Longest line that is searched for traits. */
const maxLineLength = 2000
/** Longest sentence that is turned into the first person. */
const maxSentenceLength = 1000
/** A longer text of a lorebook entry is split into parts. */
const maxLorePartLength = 420

/** Units of work for each text that is read, and for each of its letters. */
const unitsOfText = 500
const unitsOfLetter = 4
/** Units of work for each letter of a sentence that is turned into the first person. */
const unitsOfTurning = 40

/**
 * The block number of a dialogue in the description, the personality or the scenario. These texts are never dropped from the
 * prompt.
 */
const neverDropped = -1

type Found = Omit<Passage, 'id'>

/** Reads the passages of a card. */
export class CardReader {
  readonly #names: { readonly character: string; readonly user: string }
  readonly #card: Card
  /** The entries of the card's book by their index in the file. */
  readonly #ownLore: ReadonlyMap<number, LoreEntry>
  readonly #subject: Subject

  /** The same subject without pronouns, for texts in which a pronoun may mean another person. */
  readonly #anybody: Subject

  constructor(card: Card) {
    this.#card = card
    this.#ownLore = new Map(card.book?.entries.map((entry) => [entry.index, entry]))
    this.#names = { character: card.nickname || card.name, user: userNameMark }
    const description = `${card.description}\n${card.personality}`.slice(0, maxTextLength)
    // If the description has no pronouns, the pronouns of the scenario are used.
    const about = anyPronoun.test(description) ? description : card.scenario.slice(0, maxTextLength)
    const names = [this.#names.character, card.name]
    this.#subject = subjectOf(names, about)
    this.#anybody = subjectOf(names, '')
  }

  /** Reads greetings, example dialogues, lore, and texts about the character. */
  material(): Material {
    const card = this.#card
    const greetings = new Set<string>()
    const found: Found[] = []
    const blocks = this.#blocksOf(this.#expanded(card.examples.slice(0, maxExamplesLength)))
    for (const [block, utterances] of blocks.entries()) found.push(...answersIn(utterances, { block }))
    spend(unitsOfText + card.examples.length * unitsOfLetter)
    found.push(...this.#factsIn(card.description, 'self'))
    found.push(...this.#personality())
    found.push(...this.#factsIn(card.scenario, 'scene'))
    // Lore beyond `maxPassages` is not read here. `loreOf` reads it if it has fired.
    for (const entry of card.book?.entries ?? []) {
      if (found.length < maxPassages) found.push(...this.#lore(entry.index, textsOf(entry)))
    }
    for (const greeting of card.greetings) {
      if (greeting.length > maxGreetingLength) continue
      for (const sentence of comparedSentences(this.#expanded(greeting))) greetings.add(sentence)
      spend(unitsOfText + greeting.length * unitsOfLetter)
    }
    const passages = numbered(found)
    const spoken = passages.flatMap(({ source, answer }) => (isExample(source) ? answer : []))
    const actions = new Set<string>()
    for (const text of spoken) {
      if (actions.size >= maxActions) break
      for (const action of actionsIn(text)) actions.add(action)
      spend(text.length * unitsOfLetter)
    }
    return {
      greetings,
      passages,
      blocks: blocks.length,
      actions: [...actions].slice(0, maxActions),
    }
  }

  /** Reads lore that `material` has not read: lore of other books, and lore beyond the bounds. */
  loreOf(sources: readonly LoreSource[]): readonly Passage[] {
    const found: Found[] = []
    for (const source of sources) {
      const own = typeof source === 'number' ? this.#ownLore.get(source) : undefined
      if (own) found.push(...this.#lore(source, textsOf(own)))
      else if (typeof source === 'object') found.push(...this.#lore(source, source))
    }
    return numbered(found)
  }

  /** Expands macros. The values depend only on the card, because an understudy must give the same answer to the same request. */
  #expanded(text: string): string {
    const { name } = this.#card
    const values = { ...this.#names, seed: name, random: seededRandom(name), clock: clockAt(new Date(0)) }
    return expandMacros(text.replaceAll('\r', ''), values).trim()
  }

  /**
   * The blocks of a dialogue. Some cards have full-width colons after the speakers, or other names for the user. The patterns
   * never go beyond the end of a line, so that no letter is read twice.
   */
  #blocksOf(text: string): readonly (readonly Utterance[])[] {
    spend(text.length * unitsOfLetter)
    const lines = text
      .replace(/^([^\n\r\u2028\u2029:：]{1,60})：/gmu, '$1:')
      .replace(/^[^\S\n\r\u2028\u2029]*(?:\*\*)?(?:user|you|anon|human|player)(?:\*\*)?:/gim, `${userNameMark}:`)
    const { name } = this.#card
    const blocks = readExamples(lines, { ...this.#names, character: name, nickname: this.#names.character })
    return blocks.filter((block) => block.some((utterance) => utterance.text !== ''))
  }

  /** Splits a text into its dialogues and its prose. A line of the user and the paragraph after that line are not prose. */
  #split(text: string): { readonly dialogue: readonly (readonly Utterance[])[]; readonly prose: string } {
    const whole = this.#expanded(text)
    spend(unitsOfText + whole.length * unitsOfLetter)
    const dialogue: (readonly Utterance[])[] = []
    const prose: string[] = []
    let isUsers = false
    for (const block of this.#blocksOf(whole.replace(/\n\s*\n/g, '\n<START>\n'))) {
      if (block.some(({ speaker }) => speaker !== null)) dialogue.push(block)
      for (const [index, { speaker, text: said }] of block.entries()) {
        if (speaker === null && !(index === 0 && isUsers)) prose.push(said)
        isUsers = speaker === 'user'
      }
    }
    return { dialogue, prose: prose.join('\n') }
  }

  /** The passages of a lorebook entry, in parts of a few sentences. */
  #lore(entry: LoreSource, { name, body, keys }: OtherEntry): readonly Found[] {
    if (body.length > 4 * maxAnswerLength) return []
    const { dialogue, prose } = this.#split(body)
    const written = keys.map((key) => this.#expanded(key))
    const title = this.#expanded(name)
    const cue = [title, ...written.filter((key) => !isPhrase(key))].join('\n').slice(0, maxCueLength)
    const hint = written.filter(isPhrase).join('\n').slice(0, maxCueLength)
    const ofProse = partsOf(this.#turned(prose)).map((answer) => ({ cue, hint, answer, source: { entry } }))
    const ofDialogue = dialogue.flatMap((block) => answersIn(block, { entry }))
    return [...ofProse, ...ofDialogue.map((each) => ({ ...each, cue: `${cue}\n${each.cue}`, hint }))]
  }

  /**
   * Turns each sentence about the character into the first person. A sentence that is too long stays unchanged. A sentence that
   * cannot be turned is left out. For a text that instructs a model, the result is empty.
   */
  #turned(prose: string): string {
    if (isInstruction(prose)) return ''
    const turned: string[] = []
    for (const [sentence] of prose.matchAll(/[^.!?\n]+[.!?]*["”*]*|[.!?\n]+/g)) {
      const plain = sentence.trim()
      const own = plain === '' || plain.length > maxSentenceLength ? plain : inFirstPerson(plain, this.#anybody)
      spend(unitsOfText + plain.length * unitsOfTurning)
      if (own !== null) turned.push(sentence.replace(plain, () => own))
    }
    return turned.join('').trim()
  }

  /** The passages of a text about the character: its sentences and traits. Its dialogues count as examples. */
  #factsIn(text: string, source: 'self' | 'scene'): readonly Found[] {
    const { dialogue, prose } = this.#split(text.slice(0, maxTextLength))
    const isAddressed = /^\W*you(?:'re| are) /i.test(prose) && !prose.includes(userNameMark)
    const found = dialogue.flatMap((block) => answersIn(block, { block: neverDropped }))
    for (const line of prose.split('\n')) {
      const traits = line.length > maxLineLength ? [] : traitsIn(line)
      spend(unitsOfText + line.length * unitsOfTurning)
      for (const [name, value] of traits) {
        const answers = isProse(value) ? [] : this.#traitSaid(name, value)
        if (answers.length > 0) found.push(...answers.map((answer) => ({ cue: name, hint: '', answer, source })))
        else found.push(...this.#sentences(value, source, name, false))
      }
      if (traits.length === 0) found.push(...this.#sentences(line, source, '', isAddressed))
    }
    return found
  }

  /** The sentences of a trait. A trait whose name is the character's name describes the personality. */
  #traitSaid(name: string, value: string): readonly string[] {
    const isOwn = [this.#names.character, this.#card.name].includes(name.trim())
    if ((isOwn || isOfPersonality(name)) && value.length <= maxSentenceLength)
      return personalitySaid(value, this.#subject)
    const answer = trait(name, value, this.#subject)
    return answer === null ? [] : [answer]
  }

  #sentences(text: string, source: 'self' | 'scene', cue: string, isAddressed: boolean): readonly Found[] {
    const found: Found[] = []
    for (const sentence of sentencesOf(text)) {
      spend(unitsOfText + sentence.length * unitsOfTurning)
      const answer = isAddressed ? addressedInFirstPerson(sentence) : this.#ofSubject(sentence, source)
      for (const clause of answer === null ? [] : clausesOf(answer))
        found.push({ cue, hint: '', answer: clause, source })
    }
    return found
  }

  /** Turns a sentence into the first person. Null if the sentence speaks to a model, or cannot be turned. */
  #ofSubject(sentence: string, source: 'self' | 'scene'): string | null {
    if (/\b(?:you|your|user)\b/i.test(sentence)) return null
    return inFirstPerson(sentence, this.#subject, source === 'self')
  }

  /** The passages of the personality, which is often a list of traits. */
  #personality(): readonly Found[] {
    const text = this.#expanded(this.#card.personality.slice(0, maxTextLength))
    const [first = '', ...rest] = text.split(/(?<=[.!?])\s+/)
    const isList =
      /^[^:(\n]+[,;]/.test(first) && !/\b(?:is|are|has|was|he|she|they|who|i)\b/i.test(first.split(',')[0] ?? '')
    const isVerb = /^\p{Lu}\p{L}+s\b(?!,)/u.test(first)
    if (!isList || isVerb) return this.#factsIn(text, 'self')
    const said = first.length > maxSentenceLength ? [] : personalitySaid(first, this.#subject)
    const more = this.#factsIn(rest.join(' '), 'self')
    return [...said.map((answer) => ({ cue: 'personality', hint: '', answer, source: 'self' as const })), ...more]
  }
}

function textsOf({ name, body, keys }: LoreEntry): OtherEntry {
  return { name, body, keys: keys.flatMap(({ text, written }) => (text === undefined ? [] : written)) }
}

/** Whether a source is an example block. A dialogue in the description counts as one. */
export function isExample(source: Source): source is { readonly block: number } {
  return typeof source === 'object' && 'block' in source
}

/** Numbers passages. Leaves out duplicates, instructions for a model, and passages beyond the bounds. */
function numbered(found: readonly Found[]): readonly Passage[] {
  const passages: Passage[] = []
  const known = new Set<string>()
  let letters = 0
  for (const passage of found) {
    const { cue, hint, answer } = passage
    spend(answer.length * unitsOfLetter)
    if (answer === '' || answer.length > maxAnswerLength || isInstruction(answer) || known.has(answer)) continue
    known.add(answer)
    letters += cue.length + hint.length + answer.length
    if (passages.length < maxPassages && letters <= maxLetters) passages.push({ ...passage, id: passages.length })
  }
  return passages
}

/** The character's lines of one example dialogue, each with the user's line before it. */
function answersIn(block: readonly Utterance[], source: Source): readonly Found[] {
  return block.flatMap(({ speaker, text }, index) => {
    if (speaker !== 'character') return []
    const before = block[index - 1]
    const cue = before?.speaker === 'user' ? before.text.slice(0, maxCueLength) : ''
    return [{ cue, hint: '', answer: text, source }]
  })
}

function isPhrase(key: string): boolean {
  return wordsOf(key).filter(({ term }) => term !== null).length > 1
}

/** Splits a text into parts of whole sentences. Each part is short enough for one reply, unless a single sentence is longer. */
function partsOf(text: string): readonly string[] {
  if (text.length <= maxLorePartLength) return [text]
  const parts: string[] = []
  for (const sentence of text.split(/(?<=[.!?]["”]?)\s+|\n+|(?<=[。！？])/u)) {
    const last = parts.at(-1)
    if (last !== undefined && last.length + sentence.length < maxLorePartLength)
      parts[parts.length - 1] = `${last} ${sentence}`
    else parts.push(sentence)
  }
  return parts
}

/** Short actions between asterisks that fit any situation: they do not name the user, and are not a whole sentence. */
function actionsIn(text: string): readonly string[] {
  return (text.match(/(?<!\*)\*[^*\n]{3,80}\*(?!\*)/g) ?? []).filter(
    (action) => !action.includes(userNameMark) && /^\*\p{Ll}/u.test(action),
  )
}

/** Whether a text instructs a model how to reply. The user must not see such a text. */
function isInstruction(text: string): boolean {
  return /\b(?:respond|roleplay|rp|ooc|system (?:note|prompt)|your (?:reply|replies|responses?)|(?:each|every|next) (?:reply|response|message))\b/i.test(
    text,
  )
}

/** The traits in a line: "Age: 24", `Likes("rain" + "tea")`, "[hair: red; eyes: grey]". */
function traitsIn(line: string): readonly (readonly [string, string])[] {
  const plain = line
    .replaceAll('**', '')
    .replace(/^[\s\-*•[{(<]+/, '')
    .replace(/(?<![\]})>\s])[\]})>\s]+$/, '')
  const calls = Array.from(`${plain})`.matchAll(/(\p{L}[\p{L} _-]{1,30}?)\s*\(\s*(["“][^()]*["”])\s*\)/gu))
  if (calls.length > 0)
    return calls.map(([, name = '', value = '']) => [
      name,
      value.replace(/["”]\s*\+\s*["“]/g, ', ').replace(/["“”]/g, ''),
    ])
  const parts = plain.includes(';') && /^[^;]{2,40}[:=][^;]+;/.test(plain) ? plain.split(';') : [plain]
  const pairs = parts.map((part) => /^\s*(\p{L}[\p{L} '’/-]{1,60}?)\s*[:=]\s*(\S.*)$/u.exec(part))
  return pairs.every((pair) => pair !== null) ? pairs.map(([, name = '', value = '']) => [name, value]) : []
}

const anyPronoun = /\b(?:she|he|they|her|him|his|their|them)\b/i

function isProse(value: string): boolean {
  return /[.!?]\s+\p{Lu}/u.test(value) || /\b(?:she|he|they|is|was|has) /i.test(value)
}

/** The sentences of a text that state something and do not instruct a model. */
function sentencesOf(text: string): readonly string[] {
  return text
    .split(/(?<=[.!?]["”']?)(?<!\b(?:Dr|Mrs?|Ms|St|Prof|No)\.)\s+|(?<=[。！？])|\n+/u)
    .map((sentence) => sentence.trim())
    .filter((sentence) => /^["“']?\p{Lu}.{10,}[.!?]["”']?$|^\p{Lo}.{4,}$/u.test(sentence))
    .filter((sentence) => sentence.length <= maxSentenceLength && !/\b(must|write|user)\b/i.test(sentence))
}

/**
 * Turns a sentence that addresses the model into the first person: "You are a baker" becomes "I am a baker". Null for a sentence
 * that instructs the model.
 */
function addressedInFirstPerson(sentence: string): string | null {
  if (/\b(?:never|always|do not|don't|will|should|answer|reply|stay)\b/i.test(sentence)) return null
  return sentence
    .replace(/\byou are\b/gi, 'I am')
    .replace(/\byou were\b/gi, 'I was')
    .replace(/\byou're\b/gi, "I'm")
    .replace(/\byourself\b/gi, 'myself')
    .replace(/\byours\b/gi, 'mine')
    .replace(/\byour\b/gi, (found) => (found.startsWith('Y') ? 'My' : 'my'))
    .replace(/\b(with|to|of|for|at|on|by|about) you\b/g, '$1 me')
    .replace(/\byou\b/gi, 'I')
}
