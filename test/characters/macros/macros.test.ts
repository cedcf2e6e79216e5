import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { clockAt } from '../../../src/characters/macros/clock.ts'
import { expandMacros, maxMacros } from '../../../src/characters/macros/macros.ts'
import { seededRandom } from '../../../src/characters/macros/seeded-random.ts'
import type { MacroEnvironment } from '../../../src/characters/macros/values.ts'
import { cardOf, composed, promptLines } from '../../support/lore-cards.ts'

const names: MacroEnvironment = {
  character: 'Moss',
  user: 'Ada',
  seed: 's',
  random: () => 0.5,
  clock: clockAt(new Date(2026, 10, 20, 16, 5)),
}
const expand = (text: string, more: Partial<MacroEnvironment> = {}) => expandMacros(text, { ...names, ...more })

describe('long texts, which are expanded in parts', () => {
  test('12 have names replaced at every place', () => {
    for (const shift of [0, 1, 2, 3, 4, 5, 6, 7]) {
      const written = `${'x'.repeat(shift)}${'<USER> <BOT> <charIfNotGroup> <nobody> '.repeat(10_000)}`
      expect(expand(`{{char}}${written}`)).toBe(
        `${names.character}${written.replaceAll('<USER>', 'Ada').replaceAll(/<BOT>|<charIfNotGroup>/g, names.character)}`,
      )
    }
  })

  test('12 are reversed without splitting a surrogate pair', () => {
    for (const shift of [0, 1]) {
      const text = `${'x'.repeat(shift)}${'a🌿'.repeat(10_000)}`
      expect(expand(`{{reverse:${text}}}`)).toBe([...text].reverse().join(''))
    }
  })
})

describe('12 macros', () => {
  test.each([
    ['names in any letter case', '{{CHAR}} {{Char}} <BOT> <char> {{USER}} <user>', 'Moss Moss Moss Moss Ada Ada'],
    ['a value of a list', '{{random:A,B,C}}', 'B'],
    ['a value of a list, with ::', '{{random::A::B, b::C}}', 'B, b'],
    ['trimmed values between commas', '{{random: A , B , C }}', 'B'],
    ['untrimmed values between ::', '[{{random::A:: B ::C}}]', '[ B ]'],
    ['an escaped comma', '{{random:A\\,a}}', 'A,a'],
    ['macros only in the chosen value', '{{random:{{char}},{{user}} {{reverse:ab}},C}}', 'Ada ba'],
    ['a backslash before a nested macro does not divide it', '{{random::C:\\{{user}}::{{random::a::b}}}}', 'b'],
    ['commas of a nested macro do not separate values', '{{random:{{random:x,y}}}}', 'y'],
    ['dice', '{{roll:20}} {{roll:d20}} {{roll:2d6}} {{roll 20}}', '11 11 8 11'],
    ['invalid dice', '[{{roll:x}}{{roll:0}}{{roll:1001d6}}{{roll:9999999999999d6}}{{roll:d1000000001}}]', '[]'],
    ['comments, also over several lines', 'a{{// b\nc}}d{{//e}}f{{comment: g}}h', 'adfh'],
    ['hidden keys', '[{{hidden_key:x}}]', '[]'],
    ['reversed text by code points', '{{reverse:a😀b}}', 'b😀a'],
    ['a brace around a macro', '{{{char}}}', '{Moss}'],
    [
      'unknown macros as written, with the macros inside them expanded',
      '{{getvar::x}} {{weather {{char}}}}',
      '{{getvar::x}} {{weather Moss}}',
    ],
    ['unbalanced braces as written', '{{char {{user}} }} {{', '{{char Ada }} {{'],
    ['{{original}} outside of its fields as an unknown macro', '{{original}}', '{{original}}'],
    ['line breaks and trims', 'a{{newline}}b\n\n{{trim}}\n\nc{{noop}}', 'a\nbc'],
    [
      'several line breaks and blanks',
      '{{newline::2}}{{newline 1}}{{space}}{{space::3}}[{{newline::0}}]',
      '\n\n\n    []',
    ],
    ['an invalid number of line breaks', '{{newline::-1}}{{space::x}}', '{{newline::-1}}{{space::x}}'],
    ['comments with an end', 'a{{//}}b\n{{char}}{{//}}c{{///}}d{{///}}e{{//}}f', 'aef'],
    ['conditions in comments', '{{//}}{{if 1}}a{{///}}b{{if 1}}c{{//}}{{/if}}d{{///}}e{{/if}}', 'bcde{{/if}}'],
    ['comments in conditions', '{{if 1}}a{{//}}b{{///}}c{{else}}d{{/if}}', 'ac'],
    ['time and date', '{{isotime}} {{isodate}} {{weekday}} {{date}}', '16:05 2026-11-20 Friday November 20, 2026'],
    [
      'no macros for the creator notes and the version',
      '{{creatorNotes}}{{charVersion}}',
      '{{creatorNotes}}{{charVersion}}',
    ],
  ])('12 expansion gives the expected text: %s', (_what, text, expected) => {
    expect(expand(text)).toBe(expected)
  })

  test('12 one pass: values are never expanded again', () => {
    expect(expand('{{user}} {{char}}', { user: '{{char}}<BOT>$&', character: '{{user}}$1' })).toBe(
      '{{char}}<BOT>$& {{user}}$1',
    )
  })

  test('12 {{random}} is drawn anew each time; a roll gives a number from 1 to N', () => {
    const random = seededRandom('x')
    const drawn = new Set(Array.from({ length: 60 }, () => expand('{{random:A,B,C}}', { random })))
    expect([...drawn].sort()).toEqual(['A', 'B', 'C'])
    const rolled = new Set(Array.from({ length: 200 }, () => Number(expand('{{roll:6}}', { random }))))
    expect([...rolled].sort()).toEqual([1, 2, 3, 4, 5, 6])
  })

  test('12 {{pick}} stays the same for a conversation, and may differ between places and between conversations', () => {
    const text = '{{pick:A,B,C,D}}'.repeat(30)
    expect(expand(text)).toBe(expand(text))
    expect(new Set(expand(text)).size).toBeGreaterThan(1)
    expect(expand(text, { seed: 'other' })).not.toBe(expand(text))
    const card = cardOf({ description: text })
    const of = (conversationId?: string) =>
      promptLines(composed(card, 'Hi', conversationId === undefined ? {} : { conversationId }))[0]
    expect(of('1')).toBe(of('1'))
    expect(of('1')).not.toBe(of('2'))
    expect(of()).toBe(of())
  })

  test('12 fields are expanded: all texts of the card, lore and its keys, and depth notes', () => {
    const card = cardOf({
      ...Object.fromEntries(
        ['description', 'personality', 'scenario', 'system_prompt', 'post_history_instructions', 'first_mes'].map(
          (name) => [name, `${name}={{char}}+{{user}}`],
        ),
      ),
      mes_example: '{{char}}: E={{char}}+{{user}}',
      extensions: { depth_prompt: { prompt: 'N={{char}}+{{user}}', depth: 1 } },
      character_book: { entries: [{ keys: ['{{user}} key'], content: 'L={{char}}+{{user}}' }] },
    })
    const text = promptLines(composed(card, 'the ada KEY', { userName: 'Ada' })).join('\n')
    for (const name of [
      'description',
      'personality',
      'scenario',
      'system_prompt',
      'post_history_instructions',
      'first_mes',
      'E',
      'N',
      'L',
    ]) {
      expect(text).toContain(`${name}=Moss+Ada`)
    }
  })

  test("12 the card's own texts can be inserted, but not into themselves", () => {
    const card = cardOf({ description: 'D[{{description}}{{scenario}}]', scenario: 'S{{char}}' })
    expect(promptLines(composed(card, 'Hi'))[0]).toBe('system: MAIN\n\nD[D[]SMoss]\n\nSMoss')
  })

  test("12 the request's messages are never expanded", () => {
    expect(promptLines(composed(cardOf({}), '{{description}} {{char}}')).at(-1)).toBe('user: {{description}} {{char}}')
  })

  test('12 unknown macros are reported, even if their text is cached', () => {
    const card = cardOf({ description: '{{getvar::x}} {{weather}}' })
    for (let time = 0; time < 2; time++) expect(composed(card, 'Hi').unknownMacros).toEqual(['getvar', 'weather'])
  })
})

describe('15 macros are bounded', () => {
  /** Milliseconds of CPU time, which do not depend on other load. */
  const timed = (work: () => void) => {
    const before = process.threadCpuUsage()
    work()
    return process.threadCpuUsage(before).user / 1000
  }

  test('15 macros deeper than 32 levels stay as written', () => {
    const nested = (levels: number) => `${'{{reverse:'.repeat(levels)}ab${'}}'.repeat(levels)}`
    expect(expand(nested(32))).toBe('ab')
    expect(expand(nested(33))).toContain('{{reverse:')
    expect(timed(() => expand(nested(maxMacros)))).toBeLessThan(500)
    expect(() => expand(nested(maxMacros + 1))).toThrow('macros')
  })

  test('15 a text of 100,000 unmatched pairs of braces, or a list of 100,000 values, takes less than a second', () => {
    for (const text of [
      '{{'.repeat(100_000),
      '}}'.repeat(100_000),
      '{{random:'.repeat(100_000),
      `{{random:${'a,'.repeat(100_000)}}}`,
    ]) {
      expect(timed(() => expand(text))).toBeLessThan(1000)
    }
  })

  test.each(['\n{{trim}}', '{{//}}', '{{pick:a,b}}', '{{reverse:{{time}}}}', '{{unheard}}'])(
    '15 too many macros in all texts of one prompt together are refused: %s',
    (macro) => {
      const half = (count: number) => cardOf({ description: macro.repeat(count), scenario: macro.repeat(count) })
      const each = macro.includes('{{time}}') ? maxMacros / 4 : maxMacros / 2
      expect(() => composed(half(each), 'Hi')).not.toThrow()
      expect(() => composed(half(each + 1), 'Hi')).toThrow(
        expect.objectContaining({ status: 400, code: 'card_too_large', message: expect.stringContaining('3000') }),
      )
    },
  )

  test.each(['{{char}}', '<BOT>', '{{reverse:{{char}}}}'])('15 a long name in many places is refused: %s', (macro) => {
    const card = cardOf({ name: 'x'.repeat(1000), description: macro.repeat(400_000) })
    expect(() => composed(card, 'Hi')).toThrow(expect.objectContaining({ status: 400, code: 'card_too_large' }))
  })

  test('15 twice as many {{pick}} take twice the work', () => {
    const letters = vi.spyOn(String.prototype, 'charCodeAt')
    onTestFinished(() => letters.mockRestore())
    const hashed = (picks: number) => {
      letters.mockClear()
      expand('{{pick:a,b}}'.repeat(picks))
      return letters.mock.calls.length
    }
    expect(hashed(400)).toBeLessThan(2.2 * hashed(200))
  })

  test('15 a text of the card is expanded once for all macros that insert it', () => {
    let draws = 0
    const described = cardOf({
      description: 'D{{random:a,a}}{{unheard}}',
      personality: '{{description}}'.repeat(50),
      scenario: '{{description}}{{description}}',
    })
    const random = () => {
      draws++
      return 0
    }
    const composition = composed(described, 'Hi', { random })
    expect(promptLines(composition)[0]).toContain(`\n\n${'Da{{unheard}}'.repeat(50)}\n\n${'Da{{unheard}}'.repeat(2)}`)
    expect(composition.unknownMacros).toEqual(['unheard'])
    expect(draws).toBe(2)
  })
})
