import type { Message } from '../openai/completion-request.ts'
import { textsOf, tokensBesideTexts, tokensPerReply } from '../openai/messages.ts'
import type { Steps } from '../work.ts'
import { TokenCountCache, unitsOfText } from './token-count-cache.ts'
import { Vocabulary } from './vocabulary.ts'

/**
 * Counts and splits text in tokens of OpenAI's `o200k_base`. Text that looks like a special token counts as plain text. All
 * methods except `count` work in steps, because a million characters take from 0.05 s (prose) to 0.8 s (emojis).
 */
export interface Tokenizer {
  /** The number of tokens of a text of at most a few thousand characters, such as a name or a sentence. Works synchronously. */
  count(text: string): number
  /** The number of tokens of a text. */
  countSteps(text: string): Steps<number>
  /**
   * The number of tokens of a conversation by OpenAI's rule: besides the tokens of all roles, contents, names and tool calls,
   * three for each message, one for each name, and three that begin the reply.
   */
  countMessages(messages: readonly Message[]): Steps<number>
  /**
   * Splits a text into the texts of its tokens. Tokens that share a character stay together, so that no part ends inside a
   * character. Lone surrogates become U+FFFD.
   */
  split(text: string): Steps<readonly string[]>
  /** The longest beginning of the text that has at most `maxTokens` tokens. It ends where a part of `split` ends. */
  cut(text: string, maxTokens: number): Steps<string>
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

/** The characters that one step searches for runs and words. If all words have the maximum length, a step takes about 2 ms. */
const maxPartLength = 8 * 1024

/** Units of work for each word. A word that is not cached also needs units for merging, and for each of its bytes. */
const unitsOfWord = 15
const unitsOfMerge = 100
const unitsOfMergedByte = 40
/** Units of work after which a step ends. With so many units, the cost of the steps themselves is negligible. */
const unitsOfStep = 2000

let loading: Promise<Tokenizer> | undefined

/** Returns the tokenizer. The first call loads it in steps of 3 ms. Loading takes 0.14 s and 5 MB of memory. */
export function loadTokenizer(): Promise<Tokenizer> {
  loading ??= createTokenizer().catch((error: unknown) => {
    loading = undefined
    throw error
  })
  return loading
}

async function createTokenizer(): Promise<Tokenizer> {
  const [vocabulary, { O200K_TOKEN_SPLIT_REGEX: wordPattern }] = await Promise.all([
    Vocabulary.load(),
    import('gpt-tokenizer/encodingParams/constants'),
  ])
  const countTokens = (word: string) => vocabulary.tokenEnds(Buffer.from(word)).length
  const cache = new TokenCountCache()
  const { countSteps, countMessages } = createCounter(wordPattern, cache, countTokens)
  const count = (text: string) => runSteps(countSteps(text))

  /** The texts of a word's tokens, each with its number of tokens. */
  function* piecesOf(word: string, decoder: TextDecoder): Iterable<Piece> {
    const bytes = Buffer.from(word)
    let start = 0
    let tokensOfPiece = 0
    for (const end of vocabulary.tokenEnds(bytes)) {
      const decoded = decoder.decode(bytes.subarray(start, end), { stream: true })
      start = end
      tokensOfPiece += 1
      if (decoded === '') continue
      yield { text: decoded, tokens: tokensOfPiece, units: unitsOfMerge + decoded.length * unitsOfMergedByte }
      tokensOfPiece = 0
    }
  }

  /** The texts of all tokens of a text. A word that is known to be one token is not encoded again. */
  function* pieces(text: string): Iterable<Piece> {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    for (const part of partsOf(text)) {
      for (const word of wordsIn(part, wordPattern)) {
        if (cache.ofWord(word) === 1) yield { text: word.toWellFormed(), tokens: 1, units: unitsOfWord + word.length }
        else yield* piecesOf(word, decoder)
      }
    }
  }

  /** The first pieces of a text that have at most `maxTokens` tokens together. */
  function* firstPieces(text: string, maxTokens: number): Steps<string[]> {
    const texts: string[] = []
    let sum = 0
    let units = 0
    for (const piece of pieces(text)) {
      sum += piece.tokens
      if (sum > maxTokens) break
      texts.push(piece.text)
      units += piece.units
      if (units < unitsOfStep) continue
      yield units
      units = 0
    }
    yield units
    return texts
  }

  function* cut(text: string, maxTokens: number): Steps<string> {
    if (maxTokens === Infinity || (yield* countSteps(text)) <= maxTokens) return text
    const kept = yield* firstPieces(text, maxTokens)
    // Without the letters that were cut off, the last letters may have more tokens than before.
    while (kept.length > 0 && (yield* countSteps(kept.join(''))) > maxTokens) kept.pop()
    return kept.join('')
  }

  return { count, countSteps, countMessages, split: (text) => firstPieces(text, Infinity), cut }
}

/** The text of one token, or of several tokens that share a character. */
interface Piece {
  readonly text: string
  readonly tokens: number
  /** The units of work that finding the piece has taken. */
  readonly units: number
}

function runSteps<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
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
): Pick<Tokenizer, 'countSteps' | 'countMessages'> {
  function* countWords(part: string): Steps<number> {
    let sum = 0
    let units = unitsOfText
    for (const word of wordsIn(part, wordPattern)) {
      const known = cache.ofWord(word)
      sum += known ?? cache.setWord(word, countTokens(word))
      units += unitsOfWord + word.length
      if (known === undefined) units += unitsOfMerge + Buffer.byteLength(word) * unitsOfMergedByte
      if (units < unitsOfStep) continue
      yield units
      units = 0
    }
    yield units
    return sum
  }

  function* countSteps(text: string): Steps<number> {
    if (text.length <= maxPartLength) return yield* cache.ofText(text, countWords)
    let sum = 0
    for (const part of partsOf(text)) sum += yield* cache.ofText(part, countWords)
    return sum
  }

  function* countMessage(message: Message): Steps<number> {
    let sum = tokensBesideTexts(message)
    for (const text of textsOf(message)) sum += yield* countSteps(text)
    return cache.setMessage(message, sum)
  }

  function* countMessages(conversation: readonly Message[]): Steps<number> {
    let sum = tokensPerReply
    let units = 0
    for (const message of conversation) {
      sum += cache.ofMessage(message) ?? (yield* countMessage(message))
      units += unitsOfText
      if (units < unitsOfStep) continue
      yield units
      units = 0
    }
    yield units
    return sum
  }

  return { countSteps, countMessages }
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
