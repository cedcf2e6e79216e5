import fc from 'fast-check'
import { afterEach, expect, it, vi } from 'vitest'
import type { Card } from '../../../src/characters/cards/card.ts'
import { ScannedText } from '../../../src/characters/lore/scanned-text.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { assistant, cardWithLore, composed, firedIn, user } from '../../support/lore-cards.ts'
import { often } from '../../support/often.ts'

afterEach(() => vi.restoreAllMocks())

const words = ['tea', 'cup', 'Tea pot', 'mug', 'milk']
const key = fc.constantFrom(...words, '{{char}}', '<user>', '/c.p/', '/(/')
const keys = fc.array(key, { maxLength: 3 })
const said = fc
  .array(fc.tuple(fc.boolean(), fc.array(fc.constantFrom(...words, 'moss', 'x'.repeat(50)), { maxLength: 3 })), {
    minLength: 1,
    maxLength: 6,
  })
  .map((turns): readonly Message[] => turns.map(([isUsers, text]) => (isUsers ? user : assistant)(text.join(' '))))

/** The lore of a prompt as plain data; draws are the same each time. */
function loreOf(card: Card, messages: readonly Message[]): unknown {
  let draw = 7
  const random = () => {
    draw = (draw * 7 + 3) % 101
    return draw / 101
  }
  return composed(card, messages, { random }).lore
}

it('a scan with glances finds the lore that a search for each key finds', () => {
  const entry = fc.record(
    {
      keys,
      secondary_keys: keys,
      selective: fc.boolean(),
      constant: fc.constantFrom(false, false, false, true),
      content: fc
        .tuple(
          fc.constantFrom(
            '',
            '',
            '',
            '@@scan_depth 5\n',
            '@@dont_activate_after_match\n',
            '@@keep_activate_after_match\n',
            '@@activate\n',
          ),
          fc.constantFrom('', 'tea ', 'cup ', 'mug '),
        )
        .map((parts) => `${parts.join('')}LORE`),
      case_sensitive: fc.boolean(),
      extensions: fc.record(
        {
          delay_until_recursion: fc.constantFrom(false, true, 2),
          exclude_recursion: fc.boolean(),
          match_character_description: fc.boolean(),
          match_whole_words: fc.boolean(),
          probability: fc.constantFrom(100, 50),
          group: fc.constantFrom('', 'g'),
          sticky: fc.nat(3),
          cooldown: fc.nat(3),
        },
        { requiredKeys: [] },
      ),
    },
    { requiredKeys: ['keys', 'content'] },
  )
  // The primary key of the first entry is in the conversation, and its secondary key in lore that the recursion finds.
  const keyAndLore = [
    { keys: ['tea'], selective: true, secondary_keys: ['cup'], content: 'LORE' },
    { keys: ['tea'], content: 'cup LORE' },
  ]
  const searches = { atGlance: 0, simple: 0 }
  fc.assert(
    fc.property(
      fc.array(entry, { minLength: 1, maxLength: 12 }),
      said,
      fc.boolean(),
      (entries, messages, isRecursive) => {
        const card = () => cardWithLore(entries, { recursive_scanning: isRecursive }, { description: 'milk' })
        const has = vi.spyOn(ScannedText.prototype, 'has')
        const found = loreOf(card(), messages)
        searches.atGlance += has.mock.calls.length
        has.mockClear()
        // Without glances and filters, which would exclude keys, each key is searched for.
        const glance = vi.spyOn(ScannedText.prototype, 'surelyLacks').mockReturnValue(false)
        expect(found).toEqual(loreOf(card(), messages))
        searches.simple += has.mock.calls.length
        glance.mockRestore()
        has.mockRestore()
      },
    ),
    { numRuns: often(600), examples: [[keyAndLore, [user('tea')], true]] },
  )
  expect(searches.atGlance).toBeLessThan(searches.simple)
})

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
