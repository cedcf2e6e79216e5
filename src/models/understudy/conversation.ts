import { type Message, textOf } from '../../chat/completion.ts'
import { copyOf } from '../tokenizer.ts'
import { isWeak, type Word, wordsOf } from './words.ts'

/** What an understudy looks at in the messages of a request. */
export interface Conversation {
  /** The end of the user's last message. */
  readonly question: string
  /** The end of the user's message before that. */
  readonly previousQuestion: string
  /** What the character said of late. */
  readonly said: readonly string[]
  /** What the tool answered, when the last message is a tool's. */
  readonly toolResult: string | null
}

/** Characters of a message that are looked at, and how many of the character's messages. Messages can have megabytes. */
const longestQuestion = 2000
const longestSaid = 8000
const mostSaid = 20

/** Reads the conversation off the messages, the composed ones of the prompt included. */
export function readConversation(messages: readonly Message[]): Conversation {
  const questions = messages.filter(({ role }) => role === 'user').slice(-2)
  const said = messages.filter(({ role }) => role === 'assistant').slice(-mostSaid)
  const last = messages.at(-1)
  return {
    question: lastWords(questions.at(-1)),
    previousQuestion: questions.length > 1 ? lastWords(questions[0]) : '',
    said: said.map((message) => textOf(message).slice(0, longestSaid)),
    toolResult: last?.role === 'tool' || last?.role === 'function' ? textOf(last).slice(0, longestQuestion) : null,
  }
}

/** How much a question leans on the one before it: "and why?" wholly, "tell me another" partly, most not at all. */
export function leaningOf(question: string): 'none' | 'partly' | 'wholly' {
  const words = wordsOf(question)
  const strong = words.filter(isStrong).length
  if (words.length > longestFollowUp || strong > 2) return 'none'
  const refersBack = followUpOpening.test(question) || referringWord.test(question)
  if (strong === 0) return refersBack ? 'wholly' : 'partly'
  return refersBack ? 'partly' : 'none'
}

const longestFollowUp = 8
const followUpOpening =
  /^\W*(and|but|so|also|or|because|then|why|how so|how come|go on|tell me more|more|what else|what about|really|such as|like what)\b/i
const referringWord = /\b(he|she|him|her|his|hers|it|its|they|them|their|theirs|that|those|these|this)\b/i

/** What a question is about, in its own words: those from its first telling word to its last, if they are few. */
export function topicOf(question: string): string | null {
  const sentence = question
    .trim()
    .split(/(?<=[.!?])\s+/)
    .findLast((part) => wordsOf(part).some(isStrong))
  const words = wordsOf(sentence ?? '')
  const telling = words.filter(isStrong)
  const first = telling[0]
  const last = telling.at(-1)
  if (sentence === undefined || first === undefined || last === undefined) return null
  const whole = sentence.slice(first.index, last.index + last.text.length).replace(/\s+/g, ' ')
  if (whole.length <= longestTopic) return whole.replace(/["“”]/g, '')
  return longestOf(telling).slice(0, longestTopic)
}

const longestTopic = 60

function isStrong({ term }: Word): boolean {
  return term !== null && !isWeak(term)
}

function longestOf(words: readonly Word[]): string {
  return words.reduce((longest, { text }) => (text.length > longest.length ? text : longest), '')
}

/** The end of a message: as a copy, so that what is remembered of it does not keep all of it in memory. */
function lastWords(message: Message | undefined): string {
  return message === undefined ? '' : copyOf(textOf(message).slice(-longestQuestion)).trim()
}
