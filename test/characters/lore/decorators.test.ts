import { describe, expect, test } from 'vitest'
import type { Message } from '../../../src/openai/completion-request.ts'
import { assistant, cardWithLore, composed, firedIn, promptLines, user } from '../../support/lore-cards.ts'

type Entry = Readonly<Record<string, unknown>>

/** The contents of the entries that fire in a conversation. */
function fired(
  entries: readonly Entry[],
  messages: readonly Message[] | string,
  book: Entry = {},
  data: Entry = {},
  more = {},
) {
  return firedIn(composed(cardWithLore(entries, book, data), messages, more))
}

describe('7.1 decorator grammar', () => {
  const place = (content: string, data: Entry = {}) =>
    promptLines(
      composed(cardWithLore([{ constant: true, content }], {}, data), [user('1'), user('2')], {
        settings: { systemPrompt: '' },
      }),
    )
  const above = ['system: BODY', 'user: 1', 'user: 2']
  const atDepth1 = ['user: 1', 'system: BODY', 'user: 2']
  test.each([
    [
      'the leading lines are decorators; they are removed, and so are the blank lines around them',
      ' \r\n @@depth 1\r\n  @@role user\r\n\r\nBODY\r\n',
      ['user: 1', 'user: BODY', 'user: 2'],
    ],
    [
      'the first other line ends the decorators',
      '@@depth 1\nBODY\n@@depth 0',
      ['user: 1', 'system: BODY\n@@depth 0', 'user: 2'],
    ],
    ['unknown and invalid decorators are ignored', '@@unheard x\n@@depth many\n@@role nobody\nBODY', above],
    ['a fallback counts when the decorator above it is ignored', '@@unheard\n@@@depth 1\nBODY', atDepth1],
    ['a fallback does not count when the decorator above it applies', '@@depth 1\n@@@depth 0\nBODY', atDepth1],
    [
      'a chain of fallbacks is tried top to bottom',
      '@@a\n@@@b\n@@@c\n@@@d\n@@@e\n@@@f\n@@@depth 1\n@@@depth 0\nBODY',
      atDepth1,
    ],
    ['a fallback without a decorator above it is ignored', '@@@depth 0\nBODY', above],
    ['the first of two decorators with the same name counts', '@@depth 1\n@@depth 0\nBODY', atDepth1],
    ['instruct variants never apply, but their fallbacks apply', '@@instruct_depth 5\n@@@depth 1\nBODY', atDepth1],
    ['is_user_icon never applies, but its fallback applies', '@@is_user_icon x\n@@@depth 1\nBODY', atDepth1],
    ['@@position of an empty section gives way to its fallback', '@@position scenario\n@@@depth 1\nBODY', atDepth1],
    ['@@depth wins over @@reverse_depth', '@@depth 1\n@@reverse_depth 0\nBODY', atDepth1],
    ['@@end is depth 0', '@@end\nBODY', ['user: 1', 'user: 2', 'system: BODY']],
    ['@@reverse_depth counts from the oldest', '@@reverse_depth 1\nBODY', atDepth1],
  ])('7.1 %s', (_what, content, expected) => {
    expect(place(content)).toEqual(expected)
  })

  test('7.3 @@position wins over @@depth', () => {
    expect(place('@@depth 0\n@@position after_desc\nBODY', { description: 'D', scenario: 'S' })[0]).toBe(
      'system: D\n\nBODY\n\nS',
    )
  })
})

describe('7.2 decorators', () => {
  const talk = [user('tea'), assistant('a'), user('b'), assistant('c'), user('d')]
  const scenarios: readonly (readonly [string, string, readonly Message[] | string, boolean, Entry?])[] = [
    ['activate needs no key', '@@activate', 'x', true],
    [
      'activate is stronger than dont_activate and conditions',
      '@@dont_activate\n@@activate_only_after 9\n@@activate',
      'x',
      true,
    ],
    ['dont_activate keeps a constant entry off', '@@dont_activate', 'tea', false, { constant: true }],
    [
      'activate_only_after 3 does not fire after two replies',
      '@@activate_only_after 3',
      talk,
      false,
      { constant: true },
    ],
    ['activate_only_after 2 fires after two replies', '@@activate_only_after 2', talk, true, { constant: true }],
    [
      'activate_only_every 3 does not fire after two replies',
      '@@activate_only_every 3',
      talk,
      false,
      { constant: true },
    ],
    ['activate_only_every 2 fires after two replies', '@@activate_only_every 2', talk, true, { constant: true }],
    ['activate_only_every 3 fires before the first reply', '@@activate_only_every 3', 'x', true, { constant: true }],
    [
      'keep_activate_after_match fires after an earlier match',
      '@@keep_activate_after_match\n@@scan_depth 1',
      talk,
      true,
    ],
    [
      'keep_activate_after_match does not fire without an earlier match',
      '@@keep_activate_after_match\n@@scan_depth 1',
      talk.slice(1),
      false,
    ],
    [
      'dont_activate_after_match does not fire after an earlier match',
      '@@dont_activate_after_match\n@@scan_depth 9',
      talk,
      false,
    ],
    [
      'dont_activate_after_match fires at the first match',
      '@@dont_activate_after_match',
      [user('x'), assistant('y'), user('tea')],
      true,
    ],
    [
      'keep_activate_after_match does not count a turn at which a condition was not met',
      '@@keep_activate_after_match\n@@activate_only_after 1\n@@scan_depth 1',
      talk,
      false,
    ],
    [
      'keep_activate_after_match does not count a turn whose draw failed',
      '@@keep_activate_after_match\n@@probability 0\n@@scan_depth 1',
      talk,
      false,
    ],
    [
      'dont_activate_after_match lets a constant entry fire at the first turn',
      '@@dont_activate_after_match',
      'x',
      true,
      { keys: [], constant: true },
    ],
    [
      'dont_activate_after_match does not let a constant entry fire at a later turn',
      '@@dont_activate_after_match',
      talk,
      false,
      { keys: [], constant: true },
    ],
    ['scan_depth 1 scans only the newest message', '@@scan_depth 1', talk, false],
    ['is_greeting fires for the active greeting', '@@is_greeting 0', [assistant('GREETING'), user('tea')], true],
    ['is_greeting does not fire for another greeting', '@@is_greeting 1', [assistant('GREETING'), user('tea')], false],
    [
      'is_greeting is ignored if the active greeting is not known',
      '@@is_greeting 1',
      [assistant('Something else'), user('tea')],
      true,
    ],
    ['additional_keys needs one of its keys', '@@additional_keys cup, mug', 'tea mug', true],
    [
      'additional_keys needs a key of each of its lines',
      '@@additional_keys cup, mug\n@@additional_keys milk',
      'tea mug',
      false,
    ],
    ['additional_keys of a constant entry are needed too', '@@additional_keys cup', 'x', false, { constant: true }],
    ['exclude_keys does not fire if one of its keys occurs', '@@exclude_keys cup, mug', 'tea mug', false],
    ['exclude_keys fires if none of its keys occurs', '@@exclude_keys cup, mug', 'tea', true],
    ['exclude_keys is ignored in an entry with a regex', '@@exclude_keys cup', 'tea cup', true, { keys: ['/tea/'] }],
    ['match_full_word does not match inside a word', '@@match_full_word', 'steam', false],
    ['probability 0 never fires', '@@probability 0', 'tea', false],
  ]
  for (const [what, decorators, messages, expected, entry = {}] of scenarios) {
    test(`7.2 ${what}`, () => {
      const data = { first_mes: 'GREETING', alternate_greetings: ['OTHER'] }
      const settings = { systemPrompt: '', greeting: 'never' as const }
      expect(
        fired([{ keys: ['tea'], ...entry, content: `${decorators}\nBODY` }], messages, {}, data, { settings }),
      ).toEqual(expected ? ['BODY'] : [])
    })
  }

  test.each(['@@@probability 0', '@@@match_full_word'])(
    '7.2 the fallback %s of a position has no effect where the position exists',
    (fallback) => {
      const entries = [{ keys: ['tea'], content: `@@position personality\n${fallback}\nBODY` }]
      expect(fired(entries, 'steam', {}, { personality: 'Calm.' })).toEqual(['BODY'])
      expect(fired(entries, 'steam')).toEqual([])
    },
  )

  test('7.2 is_greeting follows the greeting that the request names', () => {
    const data = { first_mes: 'A', alternate_greetings: ['B'] }
    expect(fired([{ constant: true, content: '@@is_greeting 1\nBODY' }], 'x', {}, data, { greeting: 1 })).toEqual([
      'BODY',
    ])
  })

  test("7.2 disable_ui_prompt drops the operator's texts, and keeps the card's texts", () => {
    const settings = { systemPrompt: 'OPERATOR', postHistoryPrompt: 'POST' }
    const entries = [
      {
        keys: ['tea'],
        content: '@@disable_ui_prompt system_prompt\n@@disable_ui_prompt post_history_instructions\nBODY',
      },
    ]
    expect(promptLines(composed(cardWithLore(entries), 'tea', { settings }))).toEqual(['system: BODY', 'user: tea'])
    expect(
      promptLines(composed(cardWithLore(entries, {}, { system_prompt: 'CARD {{original}}' }), 'tea', { settings }))[0],
    ).toBe('system: CARD\n\nBODY')
    expect(promptLines(composed(cardWithLore(entries), 'no', { settings }))).toEqual([
      'system: OPERATOR',
      'user: no',
      'system: POST',
    ])
  })

  test('7.2 several prefills become one message', () => {
    const entries = ['A', 'B'].map((body) => ({ constant: true, content: `@@depth 0\n@@role assistant\n${body}` }))
    expect(promptLines(composed(cardWithLore(entries), 'x')).at(-1)).toBe('assistant: A\nB')
  })
})
