/** Characters of a request's texts in which quotes are looked for; of a longer one no sentence is kept. */
const maxRequestLength = 64 * 1024
/** Properties of a request whose texts are words of the protocol, or the operator's. */
const openNames = new Set(['model', 'role', 'type'])

/** So many words of a request in a row are a quote. */
const wordsOfQuote = 3
/** A word of so many letters is one by itself. */
const longWord = 8

const words = /[\p{L}\p{N}]+/gu
/** A number, and a word of a script that may have no blanks: they tell more than short words of the Latin alphabet. */
const number = /\p{N}/u
const otherScript = /[^\p{Script=Latin}\p{N}]/u
/** How JSON writes what is no letter. */
const escapes = /\\+(?:u[\da-f]{4}|.)/gi

/**
 * An upstream's sentence without what it quotes of the request, for the log, which no text of a conversation may reach: runs of
 * three words that stand in the request, and words of it that are long, or no plain ones.
 * @returns undefined where nothing is left, or the request is too long to be looked through
 */
export function withoutTextsOf(request: object, sentence: string): string | undefined {
  const texts: string[] = []
  if (!gatherTexts(request, texts, maxRequestLength)) return undefined
  const text = plain(texts.join('\n'))
  const known = new Set<string>()
  const own = text.match(words) ?? []
  const ownWords = new Set(own)
  for (let index = 0; index + wordsOfQuote <= own.length; index++) known.add(runAt(own, index))

  const said = plain(sentence)
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
 * Gathers the texts of a value of JSON, whatever its shape.
 * @param room characters that they may have together
 * @returns the room that is left; 0 where they have more
 */
function gatherTexts(value: unknown, texts: string[], room: number): number {
  if (typeof value === 'string') {
    if (value.length < room) texts.push(value)
    return Math.max(0, room - value.length)
  }
  if (typeof value !== 'object' || value === null) return room
  let left = room
  for (const [name, part] of Object.entries(value)) {
    if (left > 0 && !openNames.has(name)) left = gatherTexts(part, texts, left)
  }
  return left
}

/** Lower case, and a blank for each character that JSON writes as an escape: places stay the same. */
function plain(text: string): string {
  return text
    .replace(escapes, (written) => ' '.repeat(written.length))
    .replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}

/** Whether a word by itself tells something of a text. @param own all words of it */
function isWordOf(word: string, text: string, own: ReadonlySet<string>): boolean {
  if (word.length >= longWord || otherScript.test(word)) return text.includes(word)
  return number.test(word) && own.has(word)
}

function runAt(all: readonly string[], index: number): string {
  return all.slice(index, index + wordsOfQuote).join(' ')
}

/** The sentence with a mark in the place of each run of such words, whatever stands between them. */
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
