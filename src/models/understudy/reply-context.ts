import type { Card } from '../../characters/cards/card.ts'
import type { Steps } from '../../work.ts'
import { type Material, type Passage, readMaterial, userNameMark } from './card-passages.ts'
import type { Conversation } from './conversation.ts'
import { indexIn } from './index-in.ts'
import { createSearch, type Search } from './search.ts'
import { type SmallTalk, smallTalkOf } from './small-talk.ts'
import { fold, wordsOf } from './words.ts'

/** A part that an understudy has read. */
export interface Part {
  readonly material: Material
  readonly search: Search
  /** What answers a question that is asked in just these words. */
  readonly answers: ReadonlyMap<string, Passage>
  /** What the examples of the card answer to small talk. */
  readonly civilities: ReadonlyMap<SmallTalk, readonly Passage[]>
  /** Questions that there is an answer to, and that can be said back. */
  readonly questions: readonly string[]
}

/** One reply to be given in a part. */
export interface Scene extends Part {
  readonly conversation: Conversation
  readonly name: string
  /** Null when the user has not said it. */
  readonly userName: string | null
  readonly seed: number | null
  /** Which of the request's choices it is; 0 gets the best there is. */
  readonly choice: number
}

const parts = new WeakMap<Card, Part>()

/** Gives the part that a card describes; it is read once, in some milliseconds, for as long as the card is in use. */
export function* partOf(card: Card): Steps<Part> {
  const known = parts.get(card)
  if (known) return known
  const material = yield* readMaterial(card)
  const part = { material, search: yield* createSearch(material.passages), ...(yield* readCues(material, card)) }
  parts.set(card, part)
  return part
}

/** Reads what the user says in the examples of a card. */
function* readCues(
  { passages }: Material,
  { name, nickname }: Card,
): Steps<Pick<Part, 'answers' | 'civilities' | 'questions'>> {
  const answers = new Map<string, Passage>()
  const civilities = new Map<SmallTalk, Passage[]>()
  const questions: string[] = []
  for (const passage of passages) {
    const { cue, topic } = passage
    if (/^[^\n]{1,80}\?$/.test(cue) && smallTalkOf(cue, [nickname || name]) === null) questions.push(cue)
    if (cue === '' || topic !== null) continue
    const words = plainWords(cue)
    if (!answers.has(words)) answers.set(words, passage)
    const smallTalk = smallTalkOf(cue, [name, nickname]) ?? 'greeting'
    civilities.set(smallTalk, [...(civilities.get(smallTalk) ?? []), passage])
    yield unitsOfCue + cue.length * unitsOfLetter
  }
  return { answers, civilities, questions }
}

/** Units of work to tell what kind of small talk a text is, besides each of its letters. */
const unitsOfCue = 2000
const unitsOfLetter = 50

/** What the scene's picks turn on: the same for all choices, which take steps from there. */
export function chanceOf({ seed, conversation }: Pick<Scene, 'seed' | 'conversation'>): string {
  return `${seed ?? ''}/${conversation.said.length}/${conversation.question}`
}

/** The words of a question and nothing else, so that the same question is known however it is written. */
export function plainWords(question: string): string {
  return wordsOf(fold(question))
    .map(({ text }) => text)
    .join(' ')
}

/** The texts that the character has not said already. */
export function* untold<T>(items: Iterable<T>, textOf: (item: T) => string, scene: Scene): Steps<readonly T[]> {
  const found: T[] = []
  for (const item of items) {
    const named = addressed(textOf(item), scene.userName)
    if (!(yield* isAmong(scene.conversation.said, named))) found.push(item)
  }
  return found
}

function* isAmong(texts: readonly string[], text: string): Steps<boolean> {
  for (const each of texts) if ((yield* indexIn(each, text)) >= 0) return true
  return false
}

/** Puts the user's name into a text; without one, the user is not called by it. */
export function addressed(text: string, userName: string | null): string {
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

/** A passage as the character says it: what is told about it, in the first person where that is plain. */
export function spoken({ aboutCharacter, answer }: Passage, name: string): string {
  if (!aboutCharacter) return answer
  return inFirstPerson(answer, name) ?? `They say of me: “${answer}”`
}

/** "Mallow keeps a tea house" as Mallow says it; null for a sentence that is not so simple. */
function inFirstPerson(sentence: string, name: string): string | null {
  const rest = sentence.startsWith(`${name} `) ? sentence.slice(name.length + 1) : ''
  const [, verb, others] = /^(is|was|has|does|goes|[a-z]{2,}[^aious\W]s)(\b.*)$/s.exec(rest) ?? []
  if (verb === undefined || others === undefined || /^(?:always|perhaps|sometimes|besides)$/.test(verb)) return null
  if (thirdPerson.test(others) || others.includes(name)) return null
  return `I ${
    irregular[verb] ??
    verb
      .replace(/ies$/, 'y')
      .replace(/(ch|sh|ss|x|zz)es$/, '$1')
      .replace(/([^s])s$/, '$1')
  }${others}`
}

const irregular: Readonly<Record<string, string>> = { is: 'am', was: 'was', has: 'have', does: 'do', goes: 'go' }
/** What would have to change as well, or might: pronouns, and further verbs. */
const thirdPerson =
  /\b(?:he|she|they|him|her|hers|his|them|their|theirs|\w+self|themselves|is|has)\b|\b(?:and|but|or|then)\s+\w+s\b|,\s+\w+s\b/i
