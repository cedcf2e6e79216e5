import type { Message } from '../openai/completion-request.ts'
import { textsOf, tokensBesideTexts, tokensPerReply } from '../openai/messages.ts'
import { spend } from '../work/fuel.ts'
import { TokenCountCache, unitsOfText } from './token-count-cache.ts'
import { Vocabulary } from './vocabulary.ts'

/**
 * Counts and splits text in tokens of OpenAI's `o200k_base`. Text that looks like a special token counts as plain text. A million
 * characters take from 0.05 s (prose) to 0.8 s (emojis), so texts of more than 64 KiB belong into the pool.
 */
export interface Tokenizer {
  /** The number of tokens of a text. */
  count(text: string): number
  /**
   * The number of tokens of a conversation by OpenAI's rule: besides the tokens of all roles, contents, names and tool calls,
   * three for each message, one for each name, and three that begin the reply.
   */
  countMessages(messages: readonly Message[]): number
  /**
   * Splits a text into the texts of its tokens. Tokens that share a character stay together, so that no part ends inside a
   * character. Lone surrogates become U+FFFD.
   */
  split(text: string): readonly string[]
  /** The longest beginning of the text that has at most `maxTokens` tokens. It ends where a part of `split` ends. */
  cut(text: string, maxTokens: number): string
}

/**
 * The time to merge a word into tokens grows with the square of its length. So runs of one kind of characters are cut at this
 * length. Ordinary words are shorter. Each cut may add one token to the count.
 */
const maxRunLength = 128
/** The kinds of characters. A character may have several kinds. */
const kinds = [/[\r\n/]/, /[\p{L}\p{M}]/u, /[^\s\p{L}\p{N}]/u, /\s/] as const
/** The kinds of a character as bits, by its code point. 0 if they are not known yet. */
const kindBits = new Uint8Array(0x110000)
const knownBit = 1 << kinds.length

/** The characters of a part of a text. The counts of parts are cached, so that an edit of a long text changes few of them. */
const maxPartLength = 8 * 1024

/** Units of work for each word. A word that is not cached also needs units for merging, and for each of its bytes. */
const unitsOfWord = 15
const unitsOfMerge = 100
const unitsOfMergedByte = 40

let loading: Promise<Tokenizer> | undefined

/** Returns the tokenizer of this thread. In the first thread that loads it, this takes 0.14 s and 5 MB of memory. */
export function loadTokenizer(): Promise<Tokenizer> {
  loading ??= createTokenizer()
  return loading
}

async function createTokenizer(): Promise<Tokenizer> {
  const [vocabulary, { O200K_TOKEN_SPLIT_REGEX: wordPattern }] = await Promise.all([
    Vocabulary.load(),
    import('gpt-tokenizer/encodingParams/constants'),
  ])
  const countTokens = (word: string) => vocabulary.tokenEnds(Buffer.from(word)).length
  const cache = new TokenCountCache()
  const { count, countMessages } = createCounter(wordPattern, cache, countTokens)

  /** The texts of a word's tokens, each with its number of tokens. */
  function* piecesOf(word: string, decoder: TextDecoder): Iterable<Piece> {
    const bytes = Buffer.from(word)
    spend(unitsOfMerge + bytes.length * unitsOfMergedByte)
    let start = 0
    let tokensOfPiece = 0
    for (const end of vocabulary.tokenEnds(bytes)) {
      const decoded = decoder.decode(bytes.subarray(start, end), { stream: true })
      start = end
      tokensOfPiece += 1
      if (decoded === '') continue
      yield { text: decoded, tokens: tokensOfPiece }
      tokensOfPiece = 0
    }
  }

  /** The texts of all tokens of a text. A word that is known to be one token is not encoded again. */
  function* pieces(text: string): Iterable<Piece> {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    for (const part of partsOf(text)) {
      for (const word of wordsIn(part, wordPattern)) {
        spend(unitsOfWord + word.length)
        if (cache.ofWord(word) === 1) yield { text: word.toWellFormed(), tokens: 1 }
        else yield* piecesOf(word, decoder)
      }
    }
  }

  /** The first pieces of a text that have at most `maxTokens` tokens together. */
  function firstPieces(text: string, maxTokens: number): string[] {
    const texts: string[] = []
    let sum = 0
    for (const piece of pieces(text)) {
      sum += piece.tokens
      if (sum > maxTokens) break
      texts.push(piece.text)
    }
    return texts
  }

  function cut(text: string, maxTokens: number): string {
    if (maxTokens === Infinity || count(text) <= maxTokens) return text
    const kept = firstPieces(text, maxTokens)
    // Without the letters that were cut off, the last letters may have more tokens than before.
    while (kept.length > 0 && count(kept.join('')) > maxTokens) kept.pop()
    return kept.join('')
  }

  return { count, countMessages, split: (text) => firstPieces(text, Infinity), cut }
}

/** The text of one token, or of several tokens that share a character. */
interface Piece {
  readonly text: string
  readonly tokens: number
}

/**
 * Counts the tokens of texts word by word.
 * @param wordPattern matches words. A token never reaches beyond the end of a word
 * @param countTokens counts the tokens of one word
 */
function createCounter(
  wordPattern: RegExp,
  cache: TokenCountCache,
  countTokens: (text: string) => number,
): Pick<Tokenizer, 'count' | 'countMessages'> {
  function countWords(part: string): number {
    let sum = 0
    spend(unitsOfText)
    for (const word of wordsIn(part, wordPattern)) {
      spend(unitsOfWord + word.length)
      sum += cache.ofWord(word) ?? cache.setWord(word, countNew(word))
    }
    return sum
  }

  function countNew(word: string): number {
    spend(unitsOfMerge + Buffer.byteLength(word) * unitsOfMergedByte)
    return countTokens(word)
  }

  function count(text: string): number {
    if (text.length <= maxPartLength) return cache.ofText(text, countWords)
    let sum = 0
    for (const part of partsOf(text)) sum += cache.ofText(part, countWords)
    return sum
  }

  function countMessage(message: Message): number {
    let sum = tokensBesideTexts(message)
    for (const text of textsOf(message)) sum += count(text)
    return cache.setMessage(message, sum)
  }

  function countMessages(conversation: readonly Message[]): number {
    spend(unitsOfText * conversation.length)
    let sum = tokensPerReply
    for (const message of conversation) sum += cache.ofMessage(message) ?? countMessage(message)
    return sum
  }

  return { count, countMessages }
}

/** The words of a part of a text. A token never reaches beyond the end of a word. */
function wordsIn(part: string, wordPattern: RegExp): readonly string[] {
  const runs = splitLongRuns(part)
  return runs.flatMap((run) => run.match(wordPattern) ?? [])
}

/** Cuts a long text before blanks. Tokens begin at blanks, so the parts together have as many tokens as the whole text. */
function* partsOf(text: string): Iterable<string> {
  let start = 0
  while (text.length - start > maxPartLength) {
    const part = text.slice(start, start + maxPartLength)
    const blank = part.lastIndexOf(' ')
    // A part without a blank is cut at any position that is not inside a character.
    const end = blank > 0 ? blank : /[\uD800-\uDBFF]$/.test(part) ? part.length - 1 : part.length
    yield part.slice(0, end)
    start += end
  }
  yield text.slice(start)
}

/**
 * Cuts each run of one kind of characters at `maxRunLength`, never inside a character. A pattern for such a run would go over the
 * same characters 128 times.
 */
function splitLongRuns(text: string): readonly string[] {
  if (text.length < maxRunLength) return [text]
  const runs: string[] = []
  let start = 0
  let [breaks, letters, signs, blanks] = [0, 0, 0, 0]
  for (let index = 0; index < text.length; ) {
    const code = text.codePointAt(index) ?? 0
    index += code > 0xffff ? 2 : 1
    const bits = kindBitsOf(code)
    breaks = bits & 1 ? breaks + 1 : 0
    letters = bits & 2 ? letters + 1 : 0
    signs = bits & 4 ? signs + 1 : 0
    blanks = bits & 8 ? blanks + 1 : 0
    if (Math.max(breaks, letters, signs, blanks) < maxRunLength) continue
    runs.push(text.slice(start, index))
    start = index
    breaks = letters = signs = blanks = 0
  }
  runs.push(text.slice(start))
  return runs
}

/** The kinds of a character as bits. */
function kindBitsOf(code: number): number {
  const known = kindBits[code]
  if (known) return known
  const character = String.fromCodePoint(code)
  const bits = kinds.reduce((sum, kind, index) => sum | (kind.test(character) ? 1 << index : 0), knownBit)
  kindBits[code] = bits
  return bits
}
