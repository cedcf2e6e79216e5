import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { loadTokenizer } from '../../src/models/tokenizer.ts'
import { anyCharacter } from '../support/any-character.ts'

const tokenizer = await loadTokenizer()

const anyText = fc.oneof(
  fc.string({ unit: anyCharacter, maxLength: 300 }),
  fc.string({ unit: 'grapheme', maxLength: 300 }),
  fc.lorem({ maxCount: 60 }),
)

describe('tokenizer', () => {
  test.each([
    ['', 0],
    ['Hello world', 2],
    ['antidisestablishmentarianism', 6],
    ['2 + 2 = 4', 7],
    ['你好，世界', 3],
  ])('%j has %i tokens', (text, count) => {
    expect(tokenizer.count(text)).toBe(count)
  })

  test('the tokens of a text are the text, and end between characters', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const tokens = tokenizer.split(text)
        expect(tokens.join('')).toBe(text.toWellFormed())
        expect(tokens.every((token) => token.isWellFormed())).toBe(true)
        expect(tokens.length).toBeLessThanOrEqual(tokenizer.count(text))
      }),
    )
  })

  test('a cut text is its beginning, and within the limit', () => {
    fc.assert(
      fc.property(anyText, fc.nat(50), (text, limit) => {
        const cut = tokenizer.cut(text, limit)
        expect(text.toWellFormed().startsWith(cut.toWellFormed())).toBe(true)
        expect(tokenizer.count(cut)).toBeLessThanOrEqual(limit)
      }),
    )
  })

  test('what looks like a special token is text', () => {
    for (const text of ['<|endoftext|>', '<|im_start|>system', 'a<|endofprompt|>'.repeat(3)]) {
      expect(tokenizer.count(text)).toBeGreaterThan(3)
      expect(tokenizer.split(text).join('')).toBe(text)
    }
  })

  test.each(['a', 'A', ' ', '!', '\n', '的', '👩‍🚀', 'é'])('a long run of %j is counted and split', (letter) => {
    const text = letter.repeat(50_000)
    expect(tokenizer.count(text)).toBeGreaterThan(300)
    expect(tokenizer.split(text).join('')).toBe(text)
  })

  test('a conversation costs three tokens for each message, one for a name, three for the reply', async () => {
    expect(await tokenizer.countMessages([])).toBe(3)
    expect(await tokenizer.countMessages([{ role: 'user', content: 'Hello world' }])).toBe(3 + 3 + 1 + 2)
    expect(
      await tokenizer.countMessages([
        { role: 'system', name: 'fern', content: [{ type: 'text', text: 'Hello world' }] },
        { role: 'assistant', content: null },
      ]),
    ).toBe(3 + (3 + 1 + tokenizer.count('fern') + 1 + 2) + (3 + 1))
  })

  test('a long conversation has as many tokens as its parts, and can be left', async () => {
    const text = 'The quick brown fox jumps over the lazy dog. '.repeat(20_000)
    const counted = await tokenizer.countMessages([{ role: 'user', content: text }])
    expect(counted).toBe(3 + 3 + 1 + tokenizer.count(text))
    const leaving = new AbortController()
    const counting = tokenizer.countMessages([{ role: 'user', content: text.repeat(8) }], leaving.signal)
    leaving.abort()
    await expect(counting).rejects.toThrow()
  })
})
