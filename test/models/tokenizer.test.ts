import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { loadTokenizer } from '../../src/models/tokenizer.ts'
import { spentUnits, withFuel } from '../../src/work/fuel.ts'
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

  test('the joined tokens of a text are the text, and no token ends inside a character', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const tokens = tokenizer.split(text)
        expect(tokens.join('')).toBe(text.toWellFormed())
        expect(tokens.every((token) => token.isWellFormed())).toBe(true)
        expect(tokens.length).toBeLessThanOrEqual(tokenizer.count(text))
      }),
    )
  })

  test('a cut text is a beginning of the text, and within the limit', () => {
    fc.assert(
      fc.property(anyText, fc.nat(50), (text, limit) => {
        const cut = tokenizer.cut(text, limit)
        expect(text.toWellFormed().startsWith(cut.toWellFormed())).toBe(true)
        expect(tokenizer.count(cut)).toBeLessThanOrEqual(limit)
      }),
    )
  })

  test('text that looks like a special token is counted and split as plain text', () => {
    for (const text of ['<|endoftext|>', '<|im_start|>system', 'a<|endofprompt|>'.repeat(3)]) {
      expect(tokenizer.count(text)).toBeGreaterThan(3)
      expect(tokenizer.split(text).join('')).toBe(text)
    }
  })

  test.each(['a', 'A', ' ', '!', '\n', '\r/', '的', '👩‍🚀', 'é'])('a long run of %j is counted and split', (letter) => {
    const text = letter.repeat(50_000)
    expect(tokenizer.count(text)).toBeGreaterThan(300)
    expect(tokenizer.split(text).join('')).toBe(text)
  })

  test('long runs are cut where the pattern of a run matches', () => {
    const longRun = /[\r\n/]{128}|[\p{L}\p{M}]{128}|[^\s\p{L}\p{N}]{128}|\s{128}/gu
    const run = fc
      .tuple(
        fc.constantFrom('a', 'é', '/', '\n', '\r\n', ' ', '\u3000', '!', '\u0301', '🦉', '\ud83e', '7'),
        fc.nat(300),
      )
      .map(([character, length]) => character.repeat(length))
    fc.assert(
      fc.property(fc.array(run, { maxLength: 8 }), (runs) => {
        const text = runs.join('')
        const ends = [...text.matchAll(longRun)].map(({ index, 0: { length } }) => index + length)
        const pieces = [...ends, text.length].map((end, index) => text.slice(ends[index - 1] ?? 0, end))
        const sum = pieces.reduce((tokens, piece) => tokens + tokenizer.count(piece), 0)
        expect(tokenizer.count(text)).toBe(sum)
      }),
    )
  })

  test('runs that are nearly long enough to be cut take no longer than others', () => {
    const marks = '\u0301'.repeat(126)
    const text = Array.from({ length: 120_000 }, (_, index) => marks + index).join('')
    expect(tokenizer.count(text)).toBeGreaterThan(10_000_000)
  })

  test('a conversation costs three more tokens for each message, one more for a name, and three for the reply', () => {
    expect(tokenizer.countMessages([])).toBe(3)
    expect(tokenizer.countMessages([{ role: 'user', content: 'Hello world' }])).toBe(3 + 3 + 1 + 2)
    expect(
      tokenizer.countMessages([
        { role: 'system', name: 'fern', content: [{ type: 'text', text: 'Hello world' }] },
        { role: 'assistant', content: null },
      ]),
    ).toBe(3 + (3 + 1 + tokenizer.count('fern') + 1 + 2) + (3 + 1))
  })

  test.each([
    ['prose', 'The quick brown fox jumps over the lazy dog. '.repeat(4000)],
    ['random letters', randomLetters(100_000)],
    ['words of 127 letters', `${randomLetters(127)} `.repeat(1000)],
    ['emojis that take several tokens each', '👩‍🚀🦉'.repeat(5000)],
  ])('%s are counted and cut alike', (_what, text) => {
    expect(tokenizer.countMessages([{ role: 'user', content: text }])).toBe(3 + 3 + 1 + tokenizer.count(text))
    expect(tokenizer.count(tokenizer.cut(text, 300))).toBeLessThanOrEqual(300)
  })

  test('counting a cached text, or a frozen message again, costs next to nothing', () => {
    const text = randomLetters(50_000, 2)
    const messages = [Object.freeze({ role: 'user' as const, content: text })]
    const first = unitsOf(() => tokenizer.countMessages(messages))
    expect(first).toBeGreaterThan(100 * unitsOf(() => tokenizer.count(text)))
    expect(first).toBeGreaterThan(10_000 * unitsOf(() => tokenizer.countMessages(messages)))
  })
})

function randomLetters(length: number, seed = 1): string {
  let state = seed
  return Array.from({ length }, () => {
    state = (state * 48_271) % 2_147_483_647
    return String.fromCharCode(97 + (state % 26))
  }).join('')
}

/** The units of work that a function spends. */
function unitsOf(count: () => number): number {
  return withFuel(1e9, () => {
    count()
    return spentUnits()
  })
}
