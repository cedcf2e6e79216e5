/**
 * If the texts of a request have this many characters or more, they are not searched. Then the upstream's sentence is dropped.
 */
const maxRequestLength = 64 * 1024
/** The texts of these properties of a request may reach the log: they are words of the protocol, or names of models. */
const publicNames = new Set(['model', 'role', 'type'])

/** This many consecutive words of the request are a quote. */
const wordsOfQuote = 3
/** A single word of the request with at least this many characters is a quote. */
const longWord = 8

const words = /[\p{L}\p{N}]+/gu
/**
 * Numbers, and words in other scripts than Latin, are quotes even if they are short, because they reveal more than a short Latin
 * word.
 */
const number = /\p{N}/u
const otherScript = /[^\p{Script=Latin}\p{N}]/u
/** The escape sequences of JSON. */
const escapes = /\\+(?:u[\da-f]{4}|.)/gi

/**
 * Removes quotes of the request from an upstream's sentence, because no text of a conversation may reach the log. Quotes are runs
 * of three words of the request, and its long words, its numbers and its words in other scripts.
 * @returns undefined if no word is left, or the request is too long to be searched
 */
export function withoutTextsOf(request: object, sentence: string): string | undefined {
  const texts: string[] = []
  if (!gatherTexts(request, texts, maxRequestLength)) return undefined
  const text = normalized(texts.join('\n'))
  const known = new Set<string>()
  const own = text.match(words) ?? []
  const ownWords = new Set(own)
  for (let index = 0; index + wordsOfQuote <= own.length; index++) known.add(runAt(own, index))

  const said = normalized(sentence)
  const found = [...said.matchAll(words)]
  const saidWords = found.map(([word]) => word)
  const quoted = new Set<number>()
  for (const [index, word] of saidWords.entries()) {
    if (known.has(runAt(saidWords, index))) for (let next = 0; next < wordsOfQuote; next++) quoted.add(index + next)
    if (isWordOf(word, text, ownWords)) quoted.add(index)
  }
  const left = withoutWords(sentence, found, quoted)
  return /\p{L}/u.test(left) ? left : undefined
}

/**
 * Gathers the texts of a JSON value of any shape.
 * @param room the number of characters that the texts may have in total
 * @returns the number of characters that are left of `room`; 0 if the texts have too many characters
 */
function gatherTexts(value: unknown, texts: string[], room: number): number {
  if (typeof value === 'string') {
    if (value.length < room) texts.push(value)
    return Math.max(0, room - value.length)
  }
  if (typeof value !== 'object' || value === null) return room
  let left = room
  for (const [name, part] of Object.entries(value)) {
    if (left > 0 && !publicNames.has(name)) left = gatherTexts(part, texts, left)
  }
  return left
}

/** The text with ASCII letters in lower case, and a blank for each character of a JSON escape. All indices stay the same. */
function normalized(text: string): string {
  return text
    .replace(escapes, (written) => ' '.repeat(written.length))
    .replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}

/** Whether a single word quotes the text. @param own all words of the text */
function isWordOf(word: string, text: string, own: ReadonlySet<string>): boolean {
  if (word.length >= longWord || otherScript.test(word)) return text.includes(word)
  return number.test(word) && own.has(word)
}

function runAt(all: readonly string[], index: number): string {
  return all.slice(index, index + wordsOfQuote).join(' ')
}

/** Replaces each run of quoted words, including the characters between the words, by `…`. */
function withoutWords(sentence: string, found: readonly RegExpExecArray[], quoted: ReadonlySet<number>): string {
  let left = ''
  let at = 0
  for (const [index, { 0: word, index: start }] of found.entries()) {
    const isFirst = quoted.has(index) && !quoted.has(index - 1)
    if (isFirst) left += `${sentence.slice(at, start)}…`
    if (quoted.has(index)) at = start + word.length
  }
  return left + sentence.slice(at)
}
