import type { Card } from '../../characters/cards/card.ts'
import { readExamples, type Utterance } from '../../characters/cards/examples.ts'
import { clockAt } from '../../characters/macros/clock.ts'
import { expandMacros } from '../../characters/macros/macros.ts'
import { seededRandom } from '../../characters/macros/seeded-random.ts'
import type { Steps } from '../../work.ts'
import { wordsOf } from './words.ts'

/** Something that a character can say, and what it is found by. */
export interface Passage {
  readonly id: number
  /** What the user says before it, in an example dialogue; the name and the keys of one word, of a lorebook entry. */
  readonly cue: string
  /** The keys of several words, one on each line: single words of them are no sure sign. */
  readonly hint: string
  readonly answer: string
  /** A name that the character can offer it under. */
  readonly topic: string | null
  /** Whether it is told about the character and not by it. */
  readonly aboutCharacter: boolean
}

/** All that an understudy can say as a character; `userNameMark` stands where the user's name belongs. */
export interface Material {
  readonly greetings: readonly string[]
  readonly passages: readonly Passage[]
}

/** Stands for the user's name in material, so that one reading of a card serves every user. */
export const userNameMark = '\u{F0000}'

/** How much of a card is read: real cards are far smaller, and the search index grows with it. */
const mostPassages = 2000
const longestAnswer = 4000
const longestCue = 2000
const longestDescription = 20_000
const longestExamples = 100_000
const longestGreeting = 100_000
const mostLetters = 2_000_000

/** Units of work to read a text, besides each of its letters. */
const unitsOfText = 500
const unitsOfLetter = 4

/** Reads what the character says in a card: greetings, example dialogues, lore, and its description sentence by sentence. */
export function* readMaterial(card: Card): Steps<Material> {
  const names = { character: card.nickname || card.name, user: userNameMark }
  // The same for the same card: an understudy says the same to the same request.
  const random = seededRandom(card.name)
  const clock = clockAt(new Date(0))
  const expanded: Expand = function* (text) {
    return (yield* expandMacros(text.replaceAll('\r', ''), { ...names, seed: card.name, random, clock })).trim()
  }
  const greetings: string[] = []
  const passages: Passage[] = []
  let letters = 0
  const keep = (found: Iterable<Omit<Passage, 'id'>>) => {
    for (const passage of found) {
      const { cue, hint, answer } = passage
      if (answer === '' || answer.length > longestAnswer || isOrder(answer)) continue
      letters += cue.length + hint.length + answer.length
      if (passages.length < mostPassages && letters <= mostLetters) passages.push({ ...passage, id: passages.length })
    }
  }
  const examples = card.examples.slice(0, longestExamples)
  keep(
    (yield* readExamples(yield* expanded(examples), {
      ...names,
      character: card.name,
      nickname: names.character,
    })).flatMap(readBlock),
  )
  yield unitsOfText + examples.length * unitsOfLetter
  for (const { keys, name, content } of card.lorebook) {
    if (content.length <= 4 * longestAnswer) keep([yield* lorePassage(keys, name, content, expanded)])
    yield unitsOfText + content.length * unitsOfLetter
  }
  keep(sentencesOf(yield* expanded(card.description.slice(0, longestDescription))).map(descriptionPassage))
  for (const greeting of card.greetings) {
    if (greeting.length > longestGreeting) continue
    greetings.push(yield* expanded(greeting))
    yield unitsOfText + greeting.length * unitsOfLetter
  }
  return { greetings: greetings.filter((greeting) => greeting !== ''), passages }
}

/** Puts in what macros stand for. */
type Expand = (text: string) => Steps<string>

function* lorePassage(
  keys: readonly string[],
  name: string,
  content: string,
  expanded: Expand,
): Steps<Omit<Passage, 'id'>> {
  const written: string[] = []
  for (const key of keys) written.push(yield* expanded(key))
  const title = yield* expanded(name)
  const isSingle = (index: number) => !isPhrase(keys[index] ?? '')
  return {
    cue: [title, ...written.filter((_key, index) => isSingle(index))].join('\n').slice(0, longestCue),
    hint: written
      .filter((_key, index) => !isSingle(index))
      .join('\n')
      .slice(0, longestCue),
    answer: withoutDecorators(yield* expanded(content)),
    topic: topicOf(title || (written[0] ?? '')),
    aboutCharacter: false,
  }
}

function descriptionPassage(sentence: string): Omit<Passage, 'id'> {
  return { cue: '', hint: '', answer: sentence, topic: null, aboutCharacter: true }
}

/** The answers of one example dialogue, each with what the user said before it. */
function readBlock(block: readonly Utterance[]): readonly Omit<Passage, 'id'>[] {
  return block.flatMap(({ speaker, text }, index) => {
    if (speaker !== 'character') return []
    const before = block[index - 1]
    const cue = before?.speaker === 'user' ? before.text.slice(0, longestCue) : ''
    return [{ cue, hint: '', answer: text, topic: null, aboutCharacter: false }]
  })
}

function isPhrase(key: string): boolean {
  return wordsOf(key).filter(({ term }) => term !== null).length > 1
}

/** Lines that begin with `@@` tell a chat program where to put an entry (Character Card V3, "decorators"). */
function withoutDecorators(content: string): string {
  return content.replace(/^@@.*\n?/gm, '').trim()
}

/** A name is offered only when it reads like one. */
function topicOf(name: string): string | null {
  return name.length <= 40 && /^[\p{L}\p{N}][^_{}<>[\]|\n]*$/u.test(name) ? name : null
}

/** Whether a text tells a model how to reply, which is none of the user's business. */
function isOrder(text: string): boolean {
  return /\b(?:respond|roleplay|rp|ooc|system (?:note|prompt)|your (?:reply|replies|responses?)|(?:each|every|next) (?:reply|response|message))\b/i.test(
    text,
  )
}

/** The sentences of a description that tell about somebody, and neither about the user nor to the model. */
function sentencesOf(description: string): readonly string[] {
  return description
    .split(/(?<=[.!?]["”']?)\s+|\n+/)
    .map((sentence) => sentence.trim())
    .filter((sentence) => /^["“']?\p{Lu}.{10,}[.!?]["”']?$/u.test(sentence))
    .filter((sentence) => !sentence.includes(userNameMark) && !/\b(you|your|must|write|user)\b/i.test(sentence))
}
