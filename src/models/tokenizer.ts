import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { Message } from '../openai/completion-request.ts'
import { textsOf, tokensBesideTexts, tokensPerReply } from '../openai/messages.ts'

/** Counts and splits text in OpenAI's `o200k_base` tokens. What looks like a special token counts as plain text. */
export interface Tokenizer {
  /** How many tokens the text has. A megabyte takes from 0.05 s (prose) to 1.3 s (random letters). */
  count(text: string): number
  /**
   * The texts of the tokens; joined they are the text. Tokens that share a character stay together, so that none of
   * the texts ends inside one. Lone surrogates come back as U+FFFD.
   */
  split(text: string): readonly string[]
  /** The longest beginning of the text, in whole `split` texts, that has no more than so many tokens. */
  cut(text: string, maximumTokens: number): string
  /**
   * How many tokens a conversation costs by OpenAI's rule: three for each message besides its role and content,
   * one more for a name, and three that open the reply. Lets other work in between the parts of a long one.
   */
  countMessages(messages: readonly Message[], signal?: AbortSignal): Promise<number>
  /** Like `count`, and lets other work in between the parts of a long text. */
  countInTurns(text: string, signal?: AbortSignal): Promise<number>
}

/**
 * A word is merged in a time that grows with its square, so runs of one kind of characters are cut at this length.
 * Words and sentences are shorter; for what is longer the count can be too high by one for each cut.
 */
const longestRun = 128
const longRun = new RegExp(`[\\p{L}\\p{M}]{${longestRun}}|[^\\s\\p{L}\\p{N}]{${longestRun}}|\\s{${longestRun}}`, 'gu')

/** Words that are counted between two looks at the clock, and milliseconds before other work gets its turn. */
const wordsPerLook = 32
const turn = 8

/** Texts shorter than this are counted sooner than looked up; longer ones than that come once. */
const shortestRemembered = 256
const longestRemembered = 64 * 1024
/** The longest text that is counted without a turn for others: 15 ms of random letters. */
const longestAtOnce = 8 * 1024
const rememberedTexts = 8192
const rememberedWords = 16384

const plainText = { disallowedSpecial: new Set<string>() }

let loading: Promise<Tokenizer> | undefined

/** Gives the tokenizer, which is loaded when it is first asked for: it takes 65 MB and an eighth of a second. */
export function loadTokenizer(): Promise<Tokenizer> {
  loading ??= createTokenizer().catch((error: unknown) => {
    loading = undefined
    throw error
  })
  return loading
}

async function createTokenizer(): Promise<Tokenizer> {
  const [encoding, { default: tokens }, { O200K_TOKEN_SPLIT_REGEX: word }] = await Promise.all([
    import('gpt-tokenizer/encoding/o200k_base'),
    import('gpt-tokenizer/bpeRanks/o200k_base'),
    import('gpt-tokenizer/encodingParams/constants'),
  ])
  // Its own cache keeps slices of the texts, each of which would keep a whole request body in memory.
  encoding.setMergeCacheSize(0)
  const { count, countInTurns, countMessages } = countingWith(word, (text) => encoding.countTokens(text, plainText))

  const split = (text: string): readonly string[] => {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    const texts: string[] = []
    for (const run of withoutLongRuns(text)) {
      for (const id of encoding.encode(run, plainText)) {
        const token = tokens[id] ?? ''
        const decoded = typeof token === 'string' ? token : decoder.decode(Uint8Array.from(token), { stream: true })
        if (decoded !== '') texts.push(decoded)
      }
    }
    return texts
  }

  const cut = (text: string, maximumTokens: number): string => {
    if (maximumTokens === Infinity || count(text) <= maximumTokens) return text
    const kept = split(text).slice(0, maximumTokens)
    while (kept.length > 0 && count(kept.join('')) > maximumTokens) kept.pop()
    return kept.join('')
  }

  return { count, split, cut, countMessages, countInTurns }
}

/**
 * Counts texts word by word, and remembers: each word, text and message is counted once.
 * @param word matches the words that no token reaches over
 * @param countTokens counts the tokens of one word
 */
function countingWith(
  word: RegExp,
  countTokens: (text: string) => number,
): Pick<Tokenizer, 'count' | 'countInTurns' | 'countMessages'> {
  const words = new Map<string, number>()
  // Texts are known by their digests, so that no conversation stays in memory.
  const texts = new Map<string, number>()
  // A card gives each of its requests the same messages, which are never changed.
  const messages = new WeakMap<Message, number>()

  const countWord = (text: string) => words.get(text) ?? keep(words, rememberedWords, copyOf(text), countTokens(text))
  const countWords = (text: string) => {
    let sum = 0
    for (const each of wordsOf(text, word)) sum += countWord(each)
    return sum
  }
  const count = (text: string) => {
    const digest = digestOf(text)
    if (digest === undefined) return countWords(text)
    return texts.get(digest) ?? keep(texts, rememberedTexts, digest, countWords(text))
  }

  const countLong = async (text: string, giveTurn: GiveTurn): Promise<number> => {
    const digest = digestOf(text)
    const known = digest === undefined ? undefined : texts.get(digest)
    if (known !== undefined) return known
    let sum = 0
    let looked = 0
    for (const each of wordsOf(text, word)) {
      sum += countWord(each)
      looked += 1
      if (looked % wordsPerLook === 0) await giveTurn()
    }
    return digest === undefined ? sum : keep(texts, rememberedTexts, digest, sum)
  }
  const countNext = async (text: string, giveTurn: GiveTurn): Promise<number> => {
    if (text.length > longestAtOnce) return countLong(text, giveTurn)
    const sum = count(text)
    await giveTurn()
    return sum
  }
  const countMessage = async (message: Message, giveTurn: GiveTurn): Promise<number> => {
    let sum = tokensBesideTexts(message)
    for (const text of textsOf(message)) sum += await countNext(text, giveTurn)
    messages.set(message, sum)
    return sum
  }

  return {
    count,
    countInTurns: (text, signal) => countNext(text, turns(signal)),
    async countMessages(conversation, signal) {
      const giveTurn = turns(signal)
      let sum = tokensPerReply
      for (const message of conversation) sum += messages.get(message) ?? (await countMessage(message, giveTurn))
      return sum
    },
  }
}

/** Lets other work in, where the last turn for it is some time ago. */
type GiveTurn = () => Promise<void>

function turns(signal?: AbortSignal): GiveTurn {
  let turnStart = performance.now()
  return async () => {
    if (performance.now() - turnStart < turn) return
    await setImmediate(undefined, { signal })
    turnStart = performance.now()
  }
}

/** What a text is remembered by; undefined for one that is not. */
function digestOf(text: string): string | undefined {
  if (text.length < shortestRemembered || text.length > longestRemembered) return undefined
  return hash('sha256', text, 'base64')
}

/** Cuts a text into the words that no token reaches over. */
function* wordsOf(text: string, word: RegExp): Iterable<string> {
  for (const part of partsOf(text)) {
    for (const run of withoutLongRuns(part)) for (const match of run.matchAll(word)) yield match[0]
  }
}

/** Cuts a long text before blanks, where tokens begin, so that the parts have as many tokens as the whole. */
function* partsOf(text: string): Iterable<string> {
  let start = 0
  while (text.length - start > longestRemembered) {
    const part = text.slice(start, start + longestRemembered)
    const blank = part.lastIndexOf(' ')
    // Without a blank it is cut anywhere but inside a character.
    const end = blank > 0 ? blank : /[\uD800-\uDBFF]$/.test(part) ? part.length - 1 : part.length
    yield part.slice(0, end)
    start += end
  }
  yield text.slice(start)
}

/** Cuts a text where a run of one kind of characters gets longer than `longestRun`, never inside a character. */
function withoutLongRuns(text: string): readonly string[] {
  const runs: string[] = []
  let start = 0
  for (const { index, 0: run } of text.matchAll(longRun)) {
    runs.push(text.slice(start, index + run.length))
    start = index + run.length
  }
  runs.push(text.slice(start))
  return runs
}

/** The same text, and not a slice of a longer one: that would be kept in memory whole. */
export function copyOf(text: string): string {
  return Buffer.from(text).toString()
}

/** Remembers a count, and starts anew when that gets too much. */
function keep(counts: Map<string, number>, limit: number, key: string, count: number): number {
  if (counts.size >= limit) counts.clear()
  counts.set(key, count)
  return count
}
