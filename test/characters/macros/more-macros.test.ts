import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { clockAt } from '../../../src/characters/macros/clock.ts'
import { roll } from '../../../src/characters/macros/dice.ts'
import { expandMacros, maxMacros } from '../../../src/characters/macros/macros.ts'
import type { MacroEnvironment } from '../../../src/characters/macros/values.ts'
import { spend } from '../../../src/work/fuel.ts'
import { assistant, cardOf, composed, promptLines, user } from '../../support/lore-cards.ts'
import { unitsOf } from '../../support/units.ts'

const clock = clockAt(new Date(2026, 10, 3, 16, 5, 9, 70))
const names: MacroEnvironment = { character: 'Moss', user: 'Ada', seed: 's', random: () => 0.5, clock }

/** An expanded text, and the reported unknown macros. */
function read(text: string, more: Partial<MacroEnvironment> = {}): readonly [string, readonly string[]] {
  const unknown: string[] = []
  const onUnknown = (name: string) => void unknown.push(name)
  return [expandMacros(text, { ...names, onUnknown, ...more }), unknown]
}

describe('12 {{if}}', () => {
  const texts = { description: 'D', personality: '', scenario: '0' }
  const textOf: MacroEnvironment['textOf'] = (field) => {
    spend(1)
    return texts[field]
  }

  test.each([
    ['a text of the card', '{{if description}}yes{{/if}}', 'yes', []],
    ['an empty text of the card', 'a{{if personality}}yes{{/if}}b', 'ab', []],
    ['else', '{{if personality}}yes{{else}}no{{/if}}', 'no', []],
    ['negation', '{{if !personality}}none{{/if}}{{if ! description}}none{{/if}}', 'none', []],
    ['false values', '{{if off}}1{{/if}}{{if FALSE}}2{{/if}}{{if 0}}3{{/if}}{{if scenario}}4{{/if}}', '', []],
    ['true values', '{{if 1}}1{{/if}}{{if no}}2{{/if}}{{if user}}3{{/if}}', '123', []],
    ['a condition with macros', '{{if {{random:0,1,0}}}}a{{/if}}{{if x{{char}}}}b{{/if}}', 'ab', []],
    ['nested conditions', '{{if 1}}a{{if 0}}b{{else}}c{{/if}}d{{else}}e{{/if}}', 'acd', []],
    [
      'only the branch that applies is expanded',
      '{{if 0}}{{weather}}{{else}}{{if 1}}{{char}}{{/if}}{{/if}}',
      'Moss',
      [],
    ],
    ['letter case and blanks', '{{ IF description }}a{{ Else }}b{{ /If }}', 'a', []],
    [
      'content inside of the macro',
      '{{if::description::a::b}}{{if::0::c}}{{if::0::d{{else}}e}}{{if::1::f{{else}}g}}',
      'a::bef',
      [],
    ],
    ['indented content', '{{if 1}}\n  # Head\n    more\n  end\n{{/if}}', '# Head\n  more\nend', []],
    [
      'much indented content',
      `{{if 1}}${'\n    a\n   b\n      c'.repeat(10_000)}\n{{/if}}`,
      'a\nb\n  c\n'.repeat(10_000).slice(0, -1),
      [],
    ],
    ['content with its white space', '[{{#if 1}} a {{/if}}]', '[ a ]', []],
    ['inside another macro', '{{reverse:{{if 1}}ab{{/if}}c}}', 'cba', []],
    ['an unknown macro', '{{if {{getvar::x}}}}a{{else}}b{{/if}}', 'b', ['getvar']],
    ['a variable', '{{if .seen}}a{{else}}b{{/if}}{{if $all}}c{{/if}}', 'b', ['.seen', '$all']],
    ['no persona', '{{if persona}}{{persona}}{{else}}a stranger{{/if}}', 'a stranger', ['persona']],
    ['a condition without an end', '{{if description}}a', '{{if description}}a', ['if']],
    ['ends without a beginning', 'a{{else}}b{{/if}}c', 'a{{else}}b{{/if}}c', ['else', '/if']],
    ['a condition that ends on another level', '{{if 1}}{{reverse:a{{/if}}b}}', '{{if 1}}b}}fi/{{a', ['if', '/if']],
  ])('12 {{if}}: %s', (_what, text, expected, unknown) => {
    expect(read(text, { textOf })).toEqual([expected, unknown])
  })

  test('12 the value of a macro in a condition is not read as the name of a macro', () => {
    expect(read('{{if {{user}}}}a{{/if}}', { user: 'personality', textOf })).toEqual(['a', []])
  })

  test('12 {{if persona}} is true with a persona, whose text is not expanded again', () => {
    expect(read('{{if persona}}{{persona}}{{/if}}', { persona: 'A {{gardener}}.' })).toEqual(['A {{gardener}}.', []])
  })

  test('15 conditions are found in linear time, for any nesting', () => {
    const units = (text: string) => unitsOf(() => expandMacros(text, names))
    const most = Math.floor(maxMacros / 4)
    for (const make of [
      (count: number) => '{{if 1}}'.repeat(count) + '{{/if}}'.repeat(count),
      (count: number) => '{{if 1}}a'.repeat(2 * count),
      (count: number) => '{{if 1}}a{{/if}}'.repeat(count),
      (count: number) => '{{else}}{{/if}}'.repeat(count),
      (count: number) => `${'{{if::1::'.repeat(count)}${'}}'.repeat(count)}`,
    ]) {
      expect(units(make(most))).toBeLessThan(2.5 * units(make(most / 2)))
    }
    expect(() => read('{{if 1}}{{/if}}'.repeat(maxMacros))).toThrow('macros')
  })

  test('15 braces, conditions and text in any order are expanded without an error', () => {
    const part = fc.constantFrom('{{if 1}}', '{{if 0}}', '{{else}}', '{{/if}}', '{{', '}}', '::', 'a\n  ', '{{char}}')
    fc.assert(
      fc.property(fc.array(part, { maxLength: 60 }), (parts) => {
        expect(typeof read(parts.join(''))[0]).toBe('string')
      }),
    )
  })
})

describe('12 macros of other programs', () => {
  test.each([
    ['{{bot}} {{group}} {{groupNotMuted}} {{charIfNotGroup}} <GROUP> <CHARIFNOTGROUP>', 'Moss '.repeat(6).trim()],
    ['{{notChar}}', 'Ada'],
    ['{{random a,b,c}} {{pick a}} {{reverse ab}}', 'b a ba'],
    ['{{lastMessage}}{{lastMessageId}}', ''],
  ])('12 macros of other programs are expanded: %s', (text, expected) => {
    expect(read(text)).toEqual([expected, []])
  })

  test('12 macros for the newest messages include the greeting, and are empty inside a greeting', () => {
    const card = cardOf({
      first_mes: 'Hello{{lastMessage}}.',
      description: '[{{lastMessage}}|{{lastUserMessage}}|{{lastCharMessage}}|{{lastMessageId}}]',
    })
    expect(promptLines(composed(card, 'Hi {{char}}'))[0]).toContain('[Hi {{char}}|Hi {{char}}|Hello.|1]')
    const longer = [user('One'), assistant('Two'), user('Three'), assistant('Four')]
    expect(promptLines(composed(card, longer))[0]).toContain('[Four|Three|Four|4]')
  })

  test.each([
    ['2d6 + 4', '12'],
    ['2d6+1d4-1', '10'],
    ['-1d6', '-4'],
    ['10-d6', '6'],
    ['d6', '4'],
    ['20', '11'],
    ['20+5', ''],
    ['2d6+', ''],
    ['2d6 4', ''],
    ['d6*2', ''],
    ['600d6+600d6', ''],
    [`${'1+'.repeat(60)}d6`, ''],
  ])('12 valid dice give a number, and others nothing: %s', (dice, expected) => {
    expect(roll(dice, () => 0.5)).toBe(expected)
  })

  test.each([
    [
      Date.UTC(2026, 10, 3, 23, 5),
      '{{time_UTC+2}} {{time_utc-7}} {{time::UTC+2}} {{time: UTC+0 }}',
      '1:05 AM 4:05 PM 1:05 AM 11:05 PM',
    ],
    [Date.UTC(2026, 10, 3, 12, 0), '{{time_UTC+5:30}} {{time_UTC+330}} {{time_UTC-12}}', '5:30 PM 5:30 PM 12:00 AM'],
  ])('12 a time macro gives the time at its offset from UTC', (now, text, expected) => {
    expect(read(text, { clock: clockAt(new Date(now)) })).toEqual([expected, []])
  })

  test('12 a time macro with an invalid offset is unknown', () => {
    expect(read('{{time::noon}} {{time_UTC+1440}}')).toEqual([
      '{{time::noon}} {{time_UTC+1440}}',
      ['time', 'time_utc+1440'],
    ])
  })

  test.each([
    ['YYYY-MM-DD HH:mm:ss', '2026-11-03 16:05:09'],
    ['dddd, MMMM Do [of] YYYY, h:mm A', 'Tuesday, November 3rd of 2026, 4:05 PM'],
    ['[today is] ddd dd d do E e', 'today is Tue Tu 2 2nd 2 2'],
    ['M Mo MMM D DDD DDDD DDDo Q Qo YY', '11 11th Nov 3 307 307 307th 4 4th 26'],
    ['H hh k kk m s S SS SSS a', '16 04 16 16 5 9 0 07 070 pm'],
    ['w ww gggg W Wo GGGG', '45 45 2026 45 45th 2026'],
    ['LT|LTS|L|LL|LLL', '4:05 PM|4:05:09 PM|11/03/2026|November 3, 2026|November 3, 2026 4:05 PM'],
    ['LLLL|l|ll', 'Tuesday, November 3, 2026 4:05 PM|11/3/2026|Nov 3, 2026'],
    ['\\Y\\M 年', 'YM 年'],
  ])('12 the date in a format: %s', (format, expected) => {
    expect(read(`{{datetimeformat::${format}}}`)).toEqual([expected, []])
    expect(read(`{{datetimeformat ${format}}}`)).toEqual([expected, []])
  })

  test.each([
    [new Date(2027, 0, 1), '1 2027 53 2026'],
    [new Date(2026, 11, 31), '1 2027 53 2026'],
    [new Date(2024, 11, 30), '1 2025 1 2025'],
  ])('12 weeks at the turn of a year: %s', (now, expected) => {
    expect(read('{{datetimeformat::w gggg W GGGG}}', { clock: clockAt(now) })[0]).toBe(expected)
  })

  test('12 unknown macros are reported, whatever their names are', () => {
    const text = '{{#when a}} {{/when}} {{角色}} {{?1+1}} {{setvar::a::b}} {{}} {{ }}'
    expect(read(text)).toEqual([text, ['#when', '/when', '角色', '?1+1', 'setvar']])
    expect(read(`{{${'x'.repeat(100)}}}`)[1]).toEqual([`${'x'.repeat(64)}…`])
  })
})
