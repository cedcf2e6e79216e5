import { type Message, textOf } from '../../openai/completion-request.ts'
import { copyOf } from '../../text.ts'
import { userNameMark } from './user-name-mark.ts'
import { fold, isWeak, type Word, wordsOf } from './words.ts'

/** The parts of a request's messages that an understudy uses. */
export interface Conversation {
  /** The end of the user's last message, without its actions. */
  readonly question: string
  /** The actions in the user's last message, without their asterisks; empty without an action. */
  readonly action: string
  /** The ends of the user's earlier messages, oldest first. */
  readonly earlier: readonly string[]
  /** The end of the user's previous message. */
  readonly previousQuestion: string
  /** The name that the user gave in one of the last messages: "I'm Anna." */
  readonly givenName: string | null
  /** The character's last messages. */
  readonly said: readonly string[]
  /** The character's message before the user's first message, such as a greeting; empty for none. */
  readonly opening: string
  /** The result of a tool, if it is the last message of the conversation. Later system messages are ignored. */
  readonly toolResult: string | null
}

/** Bounds of the messages that are read: their number, and their characters. A message can have megabytes. */
const maxQuestionLength = 2000
const maxSaidLength = 8000
const maxSaidMessages = 200
const maxSaidLetters = 320_000
const maxHeardMessages = 40

/** Reads the conversation from the messages, which may include composed messages of the prompt. */
export function readConversation(messages: readonly Message[]): Conversation {
  const spoken = lastOf('user', messages, maxHeardMessages)
  const words = lastWords(spoken.at(-1))
  const earlier = spoken.slice(0, -1).map((message) => spokenIn(lastWords(message)))
  const said = lastOf('assistant', messages, maxSaidMessages).map((message) =>
    textOf(message).slice(0, maxSaidLength).replaceAll('\r', ''),
  )
  const isSpoken = ({ role }: Message) => role !== 'system' && role !== 'developer'
  const first = messages.find(isSpoken)
  const last = messages.findLast(isSpoken)
  return {
    question: spokenIn(words),
    action: doneIn(words),
    earlier,
    previousQuestion: earlier.at(-1) ?? '',
    givenName: spoken.reduce<string | null>((known, message) => introducedName(textOf(message)) ?? known, null),
    said: newestOf(said, maxSaidLetters),
    opening: first?.role === 'assistant' ? textOf(first).slice(0, maxSaidLength) : '',
    toolResult: last && isToolResult(last) ? textOf(last).slice(0, maxQuestionLength) : null,
  }
}

/** The spoken part of a message. Text between single asterisks is an action, unless it is an emphasis. */
function spokenIn(words: string): string {
  const spoken = words.replace(/(^|[\s"”.!?…])\*[^*\n]{2,400}\*(?=$|[\s"“.!?…])/g, (found, before: string) =>
    isEmphasis(found) ? found : before,
  )
  return spoken.replace(/^["“]([^"”]*)["”]$/, '$1').trim()
}

function doneIn(words: string): string {
  return Array.from(words.matchAll(/(?<!\*)\*([^*\n]{2,400})\*(?!\*)/g), ([, done = '']) => done)
    .filter((done) => !isEmphasis(done))
    .join(' ')
}

/** Whether a text between asterisks is a single word, and not a verb such as "nods". */
function isEmphasis(done: string): boolean {
  return !/\s/.test(done.trim().replace(/^\*|\*$/g, '')) && !/s\*?$/.test(done.trim())
}

/** Whether a message is the result of a tool. */
export function isToolResult({ role }: Message): boolean {
  return role === 'tool' || role === 'function'
}

/** The last messages of a role, oldest first. */
function lastOf(role: Message['role'], messages: readonly Message[], maxCount: number): readonly Message[] {
  const found: Message[] = []
  for (let index = messages.length - 1; index >= 0 && found.length < maxCount; index--) {
    const message = messages[index]
    if (message?.role === role) found.unshift(message)
  }
  return found
}

/** The last texts that together have at most `letters` letters. */
function newestOf(texts: readonly string[], letters: number): readonly string[] {
  let left = letters
  const from = texts.findLastIndex(({ length }) => {
    left -= length
    return left < 0
  })
  return texts.slice(from + 1)
}

/**
 * How much a question depends on the previous question. Most questions do not depend on it. "tell me another" depends partly, and
 * "and why?" wholly.
 */
export function dependenceOf(question: string): 'none' | 'partly' | 'wholly' {
  const words = wordsOf(question)
  const strong = words.filter(isStrong).length
  if (words.length > maxFollowUpWords || strong > 2) return 'none'
  const refersBack = followUpOpening.test(question) || referringWord.test(question)
  if (strong === 0) return refersBack ? 'wholly' : 'partly'
  return refersBack ? 'partly' : 'none'
}

const maxFollowUpWords = 8
const followUpOpening =
  /^\W*(and|but|so|also|or|because|then|why|how so|how come|go on|tell me more|more|what else|what about|really|such as|like what)\b/i
const referringWord = /\b(he|she|him|her|his|hers|it|its|they|them|their|theirs|that|those|these|this)\b/i

/** The user's name in a message with little other content: "Hi, I'm Anna."; null for any other message. */
export function introducedName(text: string): string | null {
  if (text.length > maxIntroductionLength) return null
  const found = introduction.exec(text.trim().replaceAll('’', "'"))?.groups
  const name = found?.['name']
  if (!found || name === undefined) return null
  const plain = /^\p{Ll}/u.test(name)
  if (!found['named'] && (notNames.has(fold(name)) || (plain && (!found['greeting'] || /(?:ing|ed)$/.test(name))))) {
    return null
  }
  return plain ? `${name.charAt(0).toUpperCase()}${name.slice(1)}` : name
}

const maxIntroductionLength = 120
const introduction = new RegExp(
  [
    '^(?<greeting>(?:hi|hello|hey|hiya|greetings|good (?:morning|afternoon|evening|day))\\b[\\p{L} ]{0,30}[,.!]*\\s+)?',
    "(?:(?<named>my name(?:'s| is)|call me|(?:i'm|i am|im) (?:called|named))|i'm|i am|im)\\s+",
    `(?<name>(?:\\p{L}[\\p{L}'-]*|${userNameMark})(?: (?-i:\\p{Lu})[\\p{L}'-]*){0,2})`,
    '(?:[,.!]? (?:by the way|here|(?:nice|pleased|good|glad) to meet you))?[\\s.!,]*$',
  ].join(''),
  'iu',
)
const notNames = new Set(
  `afraid alive alone angry anxious back bored busy cold confused curious depressed done dying fine good great happy here home
  hot hungry ill in late lonely lost mad new nervous ok okay old out ready sad scared serious sick so sorry sure thirsty
  tired unhappy unsure upset well worried you not`.split(/\s+/),
)

/** The main noun of a question, in a form for a reply: "the capital of Peru", "your printer". Null if the noun is not clear. */
export function nounOf(question: string): string | null {
  const words = wordsOf(question)
  for (const [position, word] of words.entries()) {
    const led = articles.get(fold(word.text)) ?? (leadingWord.test(word.text) ? '' : null)
    const noun = led === null ? nameAt(words, position, question) : nounFrom(words, position + 1, question, led)
    if (noun !== null) return noun
  }
  return null
}

/** The name at a position. Null if there is no capitalized word, or if this word begins a sentence. */
function nameAt(words: readonly Word[], position: number, question: string): string | null {
  const word = words[position]
  if (!word || !/^\p{Lu}/u.test(word.text) || !isStrong(word)) return null
  const isFirst = '.!?…'.includes(question.slice(0, word.index).trimEnd().slice(-1))
  const name = isFirst ? null : nounFrom(words, position, question, '')
  return name !== null && !/ \p{Ll}/u.test(name.replace(/ (?:of|in) .*/, '')) ? name : null
}

const articles: ReadonlyMap<string, string> = new Map([
  ['the', 'the '],
  ['a', 'a '],
  ['an', 'an '],
  ['my', 'your '],
  ['our', 'your '],
])
const leadingWord = /^(?:about|explain|like|love|enjoy|prefer|hate|of|some)$/i
const noNounBefore = /^(?:with|who|that|which|between)$/i
const maxNounWords = 3
/** The most nouns in a chain such as "the door of the house of my aunt". */
const maxNouns = 10

/**
 * The noun at a position: up to `maxNounWords` significant words, and the noun after "of" or "in". Null if the noun is not clear.
 */
function nounFrom(words: readonly Word[], from: number, question: string, article: string, count = 1): string | null {
  const joined = (position: number) => {
    const [one, next] = [words[position - 1], words[position]]
    return one && next && /^[\s-]+$/.test(question.slice(one.index + one.text.length, next.index))
  }
  const end = endOfNoun(words, from, joined)
  const [first, last, next] = [words[from], words[end - 1], words[end]]
  if (end === from || !first || !last || (from > 0 && !joined(from))) return null
  const noun = `${article}${question.slice(first.index, last.index + last.text.length).replace(/\s+/g, ' ')}`
  if (noun.length > 40) return null
  if (!next || !joined(end)) return noun
  if (noNounBefore.test(next.text)) return null
  if (count === maxNouns || !/^(?:of|in)$/i.test(next.text)) return noun
  const skipped = /^(?:the|a|an)$/i.test(words[end + 1]?.text ?? '') ? 1 : 0
  const rest = nounFrom(words, end + 1 + skipped, question, skipped ? `${words[end + 1]?.text} ` : '', count + 1)
  return rest === null ? noun : `${noun} ${next.text} ${rest}`
}

/**
 * The position after the words that may be one noun. `from` if there is no such word, or if there are more than `maxNounWords`
 * words.
 */
function endOfNoun(words: readonly Word[], from: number, joined: (position: number) => unknown): number {
  let end = from
  for (let word = words[end]; word && isNounLike(word) && (end === from || joined(end)); word = words[end]) {
    end += 1
    if (end - from > maxNounWords) return from
  }
  return end
}

function isNounLike(word: Word): boolean {
  return isStrong(word) && !noNounBefore.test(word.text)
}

function isStrong({ term }: Word): boolean {
  return term !== null && !isWeak(term)
}

/** The end of a message, as a copy, because a slice would keep the whole message in memory. */
function lastWords(message: Message | undefined): string {
  return message === undefined ? '' : copyOf(textOf(message).slice(-maxQuestionLength)).trim()
}
