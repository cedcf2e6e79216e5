import fc from 'fast-check'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { expect, it } from 'vitest'
import { loadTokenizer } from '../../src/models/tokenizer.ts'
import type { Message } from '../../src/openai/completion-request.ts'
import { textsOf, tokensBesideTexts, tokensPerReply } from '../../src/openai/message-sizes.ts'

/** Counts every text of every message, without a cache. The tokenizer must give the same number. */
function countSimply(messages: readonly Message[]): number {
  const plainText = { disallowedSpecial: new Set<string>() }
  return messages.reduce(
    (sum, message) =>
      textsOf(message).reduce((part, text) => part + countTokens(text, plainText), sum + tokensBesideTexts(message)),
    tokensPerReply,
  )
}

const word = fc.oneof(
  { weight: 4, arbitrary: fc.lorem({ maxCount: 1 }) },
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 5 }),
  fc.nat().map(String),
)
/** Texts that are not cached, texts that are cached whole, and texts that are cached in parts. */
const text = fc
  .tuple(fc.array(word, { minLength: 1, maxLength: 60 }), fc.constantFrom(1, 1, 5, 50))
  .map(([words, times]) => Array.from({ length: times }, () => words.join(' ')).join(' '))

/**
 * Conversations of a few texts, which may begin with the same words. The messages of a card are the same objects each time; the
 * messages of callers are not.
 */
const conversations = fc.record({
  texts: fc
    .tuple(fc.oneof(fc.constant(''), text), fc.array(text, { minLength: 1, maxLength: 4 }))
    .map(([same, ends]) => ends.map((end) => `${same} ${end}`)),
  asked: fc.array(
    fc.array(fc.record({ place: fc.nat(), isOfCard: fc.boolean(), hasName: fc.boolean() }), { maxLength: 6 }),
    { minLength: 1, maxLength: 5 },
  ),
})

it('counts conversations as if no word, text or message had been counted before', async () => {
  const tokenizer = await loadTokenizer()
  fc.assert(
    fc.property(conversations, ({ texts, asked }) => {
      const ofCard = texts.map((content): Message => Object.freeze({ role: 'system', content }))
      for (const places of asked) {
        const messages = places.flatMap(({ place, isOfCard, hasName }): readonly Message[] => {
          const content = texts[place % texts.length] ?? ''
          const card = ofCard[place % texts.length]
          if (isOfCard && card) return [card]
          return [{ role: 'user', content, ...(hasName ? { name: content } : {}) }]
        })
        expect(tokenizer.countMessages(messages)).toBe(countSimply(messages))
      }
    }),
  )
})

it('gives each word and text its own count, also after the caches were full', async () => {
  const { count } = await loadTokenizer()
  const same = 'Plant '.repeat(50)
  const before = countTokens(same)
  const numbers = Array.from({ length: 20_000 }, (_, index) => index)
  for (let round = 0; round < 2; round++) {
    const counts = numbers.map((each) => count(`${same}x${each}`) - before)
    expect(counts).toEqual(numbers.map((each) => countTokens(` x${each}`) - 1))
  }
})
