import { hash } from 'node:crypto'
import type { Message } from '../openai/completion-request.ts'
import { FrozenMessagesCache, textsOf, tokensBesideTexts, tokensPerReply } from '../openai/message-sizes.ts'
import { copyOf } from '../text.ts'
import { spend } from '../work/fuel.ts'
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

/** Shorter texts are not cached, because counting their tokens is faster than a lookup. */
const minCachedLength = 256
/** Longer words are not cached: they are rarely repeated, and would take much memory. */
const maxCachedWordLength = 128
/** The most words and the most texts whose counts are cached. */
const maxCached = 16384

/** Units of work for each text or message. */
const unitsOfText = 30
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
  const knownWords = new Map<string, number>()
  const { count, countMessages } = createCounter(wordPattern, knownWords, countTokens)

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
        if (knownWords.get(word) === 1) yield { text: word.toWellFormed(), tokens: 1 }
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
 * Counts the tokens of texts word by word. The counts of words, texts and messages of cards are cached. Without the counts of
 * messages, a prompt receipt would cost 310 % more CPU time; without the counts of texts, counting 20 messages of prose would cost
 * over 1,000 % more (bench/figures.md).
 * @param wordPattern matches words. A token never reaches beyond the end of a word
 * @param words the cached counts of words
 * @param countTokens counts the tokens of one word
 */
function createCounter(
  wordPattern: RegExp,
  words: Map<string, number>,
  countTokens: (text: string) => number,
): Pick<Tokenizer, 'count' | 'countMessages'> {
  /** The keys are digests, so that no conversation stays in memory. */
  const texts = new Map<string, number>()

  function countWords(part: string): number {
    let sum = 0
    spend(unitsOfText)
    for (const word of wordsIn(part, wordPattern)) {
      spend(unitsOfWord + word.length)
      sum += words.get(word) ?? countNew(word)
    }
    return sum
  }

  function countNew(word: string): number {
    spend(unitsOfMerge + Buffer.byteLength(word) * unitsOfMergedByte)
    const tokens = countTokens(word)
    return word.length > maxCachedWordLength ? tokens : remember(words, copyOf(word), tokens)
  }

  function countPart(part: string): number {
    if (part.length < minCachedLength) return countWords(part)
    const digest = hash('sha256', part, 'base64')
    const known = texts.get(digest)
    if (known === undefined) return remember(texts, digest, countWords(part))
    spend(unitsOfText + (part.length >> 3))
    return known
  }

  function count(text: string): number {
    if (text.length <= maxPartLength) return countPart(text)
    let sum = 0
    for (const part of partsOf(text)) sum += countPart(part)
    return sum
  }

  const counted = new FrozenMessagesCache((messages) => {
    let sum = 0
    for (const message of messages) {
      sum += tokensBesideTexts(message)
      for (const text of textsOf(message)) sum += count(text)
    }
    return sum
  })

  function countMessages(conversation: readonly Message[]): number {
    spend(unitsOfText * conversation.length)
    let sum = tokensPerReply
    for (const tokens of counted.of(conversation)) sum += tokens
    return sum
  }

  return { count, countMessages }
}

/** Caches a count, and returns it. A full cache is cleared first. */
function remember(counts: Map<string, number>, key: string, count: number): number {
  if (counts.size >= maxCached) counts.clear()
  counts.set(key, count)
  return count
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
    const bits = kindBits[code] || kindBitsOf(code)
    breaks = (breaks + 1) * (bits & 1)
    letters = (letters + 1) * ((bits >> 1) & 1)
    signs = (signs + 1) * ((bits >> 2) & 1)
    blanks = (blanks + 1) * ((bits >> 3) & 1)
    if (Math.max(breaks, letters, signs, blanks) < maxRunLength) continue
    runs.push(text.slice(start, index))
    start = index
    breaks = letters = signs = blanks = 0
  }
  runs.push(text.slice(start))
  return runs
}

/** The kinds of a character as bits, to be looked up in `kindBits` first. */
function kindBitsOf(code: number): number {
  const character = String.fromCodePoint(code)
  const bits = kinds.reduce((sum, kind, index) => sum | (kind.test(character) ? 1 << index : 0), knownBit)
  kindBits[code] = bits
  return bits
}
