import fc from 'fast-check'
import { expect, it } from 'vitest'
import { plainKey } from '../../../src/characters/lore/keys.ts'
import { ScanBudget, ScannedText, TrigramFilter } from '../../../src/characters/lore/search.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { assistant, cardWithLore, composed, firedIn, user } from '../../support/lore-cards.ts'
import { often } from '../../support/often.ts'

const words = ['tea', 'cup', 'Tea pot', 'mug', 'milk']
const key = fc.constantFrom(...words, '{{char}}', '<user>', '/c.p/', '/(/')
const keys = fc.array(key, { maxLength: 3 })
const said = fc
  .array(fc.tuple(fc.boolean(), fc.array(fc.constantFrom(...words, 'moss', 'x'.repeat(50)), { maxLength: 3 })), {
    minLength: 1,
    maxLength: 6,
  })
  .map((turns): readonly Message[] => turns.map(([isUsers, text]) => (isUsers ? user : assistant)(text.join(' '))))

it('a scan finds the entries whose keys String.includes or a RegExp finds in the texts, and expands their bodies', () => {
  const forms: Readonly<Record<string, (text: string) => boolean>> = {
    '{{char}}': (text) => text.toLowerCase().includes('moss'),
    '<user>': (text) => text.toLowerCase().includes('user'),
    '/c.p/': (text) => /c.p/.test(text),
    '/(/': () => false,
  }
  const isIn = (each: string, text: string) => forms[each]?.(text) ?? text.toLowerCase().includes(each.toLowerCase())
  const entry = fc.tuple(keys, fc.boolean())
  fc.assert(
    fc.property(fc.array(entry, { minLength: 1, maxLength: 70 }), said, fc.nat(7), (drawn, messages, scan_depth) => {
      const description = 'Cups of milk'
      const scanned = scan_depth === 0 ? [] : messages.slice(-scan_depth).map(({ content }) => String(content))
      const expected = drawn.flatMap(([listed, scansCard], index) => {
        const texts = scansCard ? [...scanned, description] : scanned
        return listed.some((each) => texts.some((text) => isIn(each, text))) ? [`LORE${index} of Moss`] : []
      })
      const entries = drawn.map(([listed, scansCard], index) => ({
        keys: listed,
        content: `LORE${index} of {{char}}`,
        extensions: { match_character_description: scansCard },
      }))
      const card = cardWithLore(entries, { scan_depth, recursive_scanning: false }, { description })
      expect(firedIn(composed(card, messages))).toEqual(expected)
    }),
    { numRuns: often(300) },
  )
})

const letter = fc.constantFrom('a', 'b', 'c', 'A', ' ', '\n', 'é', 'Ж', '茶', '🌱', '\ud83c', 'ß')
const anyWord = fc.string({ unit: letter, minLength: 1, maxLength: 8 })

/** Texts of many lengths, so that their filters have all sizes: the same words up to 2,000 times, each time with a number. */
const text = fc
  .tuple(fc.array(anyWord, { maxLength: 12 }), fc.constantFrom(1, 1, 30, 2000))
  .map(([words, count]) =>
    Array.from({ length: count }, (_none, index) => `${words.join(index % 7 ? '' : ' ')}${index}`),
  )
  .map((parts) => parts.join(''))

/** Keys, many of which occur in a text: parts of the text, as they are or in upper case, and other words. */
const keysFor = (within: string) =>
  fc.array(
    fc.oneof(
      anyWord,
      fc
        .tuple(fc.nat(within.length), fc.integer({ min: 1, max: 9 }), fc.boolean())
        .map(([start, length, isUpper]) => {
          const part = within.slice(start, start + length)
          return isUpper ? part.toUpperCase() : part
        })
        .filter((part) => part !== ''),
    ),
    { minLength: 1, maxLength: 30 },
  )
const textAndKeys = text.chain((within) => fc.tuple(fc.constant(within), keysFor(within)))

it('a text and each part of it have exactly the keys that String.includes finds, with and without regard to letter case', () => {
  fc.assert(
    fc.property(textAndKeys, fc.nat(60), fc.nat(60), ([within, keys], start, length) => {
      const lower = within.toLowerCase()
      const filter = new TrigramFilter(lower)
      const part = lower.slice(start, start + length)
      const texts = [new ScannedText(within), new ScannedText(part, part, filter)] as const
      for (const key of keys.map(plainKey)) {
        const inLower = texts.map((text) =>
          text.has(key, { caseSensitive: false, wholeWords: false }, new ScanBudget()),
        )
        expect(inLower).toEqual([lower.includes(key.lower), part.includes(key.lower)])
        const isFound = texts[0].has(key, { caseSensitive: true, wholeWords: false }, new ScanBudget())
        expect(isFound).toBe(within.includes(key.written))
      }
    }),
    { numRuns: often(300) },
  )
})

it.each([100, 4000])('the filter of a text of %i characters excludes most keys that do not occur', (length) => {
  const lower = Array.from({ length }, (_none, index) => index.toString(36))
    .join(' ')
    .slice(0, length)
  const filter = new TrigramFilter(lower)
  const keys = Array.from({ length: 1000 }, (_none, index) => `${String.fromCharCode(97 + (index % 26))}-q${index}é`)
  const passed = keys.filter((key) => filter.mayContain(plainKey(key).trigrams, new ScanBudget()))
  expect(passed.length).toBeLessThan(100)
})
