import { describe, expect, test } from 'vitest'
import type { Message } from '../../../src/openai/completion-request.ts'
import { assistant, cardWithLore, composed, firedIn, system, told, user } from '../../support/lore-cards.ts'

type Entry = Readonly<Record<string, unknown>>

/** What fires of these entries when the conversation is this. */
function fired(
  entries: readonly Entry[],
  messages: readonly Message[] | string,
  book: Entry = {},
  data: Entry = {},
  more = {},
) {
  return firedIn(composed(cardWithLore(entries, book, data), messages, more))
}

const silver = { extensions: { position: 1, display_index: 0 } }

describe('6 matching', () => {
  const scenarios: readonly (readonly [
    string,
    readonly Entry[],
    readonly Message[] | string,
    readonly string[],
    Entry?,
  ])[] = [
    [
      '6.2 one key is enough, and adds its content once',
      [{ keys: ['no', 'tea', 'cup'] }],
      'tea, tea and a cup',
      ['LORE0'],
    ],
    [
      '6.2 disabled entries never match',
      [{ keys: ['tea'], enabled: false, constant: true, content: '@@activate\nX' }],
      'tea',
      [],
    ],
    [
      '6.2 empty content adds nothing',
      [
        { constant: true, content: ' \n' },
        { constant: true, content: '@@activate\n\n' },
        { constant: true, content: '{{// x}}' },
      ],
      'tea',
      [],
    ],
    [
      '6.2 letter case matters only when asked for',
      [{ keys: ['Tea'] }, { keys: ['Tea'], case_sensitive: true }, { keys: ['tea'], case_sensitive: true }],
      'tea',
      ['LORE0', 'LORE2'],
    ],
    [
      '6.2 lower-casing is Unicode',
      [{ keys: ['ЧАЙ'] }, { keys: ['茶'] }, { keys: ['CAFÉ'] }],
      'чай, 茶, café',
      ['LORE0', 'LORE1', 'LORE2'],
    ],
    ['6.2 constant needs no key', [{ constant: true }], 'x', ['LORE0']],
    [
      '6.2 selective needs one of each list',
      [
        { keys: ['tea'], selective: true, secondary_keys: ['cup', 'pot'] },
        { keys: ['tea'], selective: true, secondary_keys: ['mug'] },
      ],
      'tea pot',
      ['LORE0'],
    ],
    [
      '6.2 selective without secondary keys is as if not',
      [
        { keys: ['tea'], selective: true, secondary_keys: [] },
        { keys: ['tea'], selective: true, secondary_keys: [' '] },
      ],
      'tea',
      ['LORE0', 'LORE1'],
    ],
    [
      '6.2 secondary keys may be a text with commas',
      [{ keys: ['tea'], selective: true, secondary_keys: 'cup, pot' }],
      'tea pot',
      ['LORE0'],
    ],
    ['6.2 secondary keys are ignored unless selective', [{ keys: ['tea'], secondary_keys: ['mug'] }], 'tea', ['LORE0']],
    [
      '6.2 lower insertion order stands first, ties as in the file',
      [
        { constant: true, insertion_order: 1.5 },
        { constant: true, insertion_order: -2 },
        { constant: true, insertion_order: 1.5 },
      ],
      'x',
      ['LORE1', 'LORE0', 'LORE2'],
    ],
    ['6.3 blank keys never match', [{ keys: [' ', ''] }], ' a b ', []],
    ['6.3 keys may lie anywhere in a word', [{ keys: ['ea'] }], 'steam', ['LORE0']],
    [
      '6.3 no key matches across two messages',
      [{ keys: ['one two'] }, { keys: ['one\ntwo'] }],
      [user('one'), user('two')],
      [],
    ],
    [
      '6.3 comments of the chat are not looked at',
      [{ keys: ['tea'] }, { keys: ['cup'] }, { keys: ['pot'] }],
      '{{// tea}} {{comment: cup}} pot',
      ['LORE2'],
    ],
    [
      '6.3 speaker names are not looked at',
      [{ keys: ['moss'] }, { keys: ['user'] }],
      [assistant('Hm'), user('Hi')],
      [],
    ],
    ['6.3 system messages are not looked at', [{ keys: ['tea'] }], [system('tea'), user('Hi')], []],
    [
      '6.3 macros in keys are expanded',
      [{ keys: ['{{char}} the great'] }, { keys: ['<user>!'] }],
      'moss the great, user!',
      ['LORE0', 'LORE1'],
    ],
    [
      '6.1 scan_depth is the newest N messages',
      [{ keys: ['tea'] }, { keys: ['cup'] }],
      [user('tea'), assistant('cup'), user('x')],
      ['LORE1'],
      { scan_depth: 2 },
    ],
    ['6.1 scan_depth 0 looks at none', [{ keys: ['tea'] }, { constant: true }], 'tea', ['LORE1'], { scan_depth: 0 }],
    [
      '6.1 four messages are looked at by default',
      [{ keys: ['tea'] }, { keys: ['cup'] }],
      [user('tea'), ...['cup', '2', '3', '4'].map(user)],
      ['LORE1'],
    ],
    [
      '6.3 an entry has its own depth',
      [
        { keys: ['tea'], extensions: { scan_depth: 2 } },
        { keys: ['tea'], content: '@@scan_depth 2\nX', extensions: { scan_depth: 1 } },
        { keys: ['tea'] },
      ],
      [user('tea'), user('x')],
      ['LORE0', 'X'],
      { scan_depth: 1 },
    ],
    [
      '6.4 use_regex with plain keys is plain, constant and secondaries hold',
      [
        { keys: ['te.'], use_regex: true },
        { use_regex: true, constant: true },
        { keys: ['tea'], use_regex: true, selective: true, secondary_keys: ['mug'] },
      ],
      'tea',
      ['LORE1'],
    ],
    [
      '6.4 slash keys are regexes when use_regex is true or absent',
      [{ keys: ['/T.A/i'], use_regex: true }, { keys: ['/t.a/'] }, { keys: ['/t.a/'], use_regex: false }],
      'tea',
      ['LORE0', 'LORE1'],
    ],
    ['6.4 with use_regex false slashes are text', [{ keys: ['/t.a/'], use_regex: false }], 'a /T.A/', ['LORE0']],
    [
      '6.4 an effective regex is neither constant nor selective',
      [
        { keys: ['/nope/'], use_regex: true, constant: true },
        { keys: ['/tea/'], use_regex: true, selective: true, secondary_keys: ['mug'] },
      ],
      'tea',
      ['LORE1'],
    ],
    [
      "6.4 but of SillyTavern's entries it is",
      [
        { keys: ['/nope/'], use_regex: true, constant: true, ...silver },
        { keys: ['/tea/'], use_regex: true, selective: true, secondary_keys: ['mug'], ...silver },
      ],
      'tea',
      ['LORE0'],
    ],
    [
      '6.4 failure mode 23: an invalid regex matches nothing, not even literally; other keys count',
      [{ keys: ['/(/', 'cup'], use_regex: true }, { keys: ['/(/'], use_regex: true }, { keys: ['/(?<=a)b/'] }],
      '/(/ ab cup',
      ['LORE0'],
    ],
    [
      '6.4 g and y have no effect, s and m have',
      [{ keys: ['/tea/gy'] }, { keys: ['/a.b/s'] }, { keys: ['/^b$/m'] }, { keys: ['/^b$/'] }],
      'x tea a\nb',
      ['LORE0', 'LORE1', 'LORE2'],
    ],
    ['6.4 unknown flags make it plain', [{ keys: ['/tea/q'] }], 'x /tea/q', ['LORE0']],
    ['6.4 every key is tried', [{ keys: ['/a/', '/b/', '/c/'] }], 'c', ['LORE0']],
    [
      '6.6 selectiveLogic',
      ['any', 'not all', 'not any', 'all'].map((_name, selectiveLogic) => ({
        keys: ['tea'],
        selective: true,
        secondary_keys: ['cup', 'pot'],
        extensions: { selectiveLogic },
      })),
      'tea cup',
      ['LORE0', 'LORE1'],
    ],
    [
      '6.6 selectiveLogic with none',
      ['any', 'not all', 'not any', 'all'].map((_name, selectiveLogic) => ({
        keys: ['tea'],
        selective: true,
        secondary_keys: ['cup', 'pot'],
        extensions: { selectiveLogic },
      })),
      'tea',
      ['LORE1', 'LORE2'],
    ],
    [
      '6.6 whole words',
      [
        { keys: ['tea'], extensions: { match_whole_words: true } },
        { keys: ['чай'], extensions: { match_whole_words: true } },
      ],
      'steam teas; чай!',
      ['LORE1'],
    ],
    [
      '6.6 delay',
      [
        { keys: ['tea'], extensions: { delay: 2 } },
        { keys: ['tea'], extensions: { delay: 1 } },
      ],
      'tea',
      ['LORE1'],
    ],
    [
      '6.6 probability 0, and one that is not used',
      [
        { constant: true, extensions: { probability: 0, useProbability: true } },
        { constant: true, extensions: { probability: 0, useProbability: false } },
      ],
      'x',
      ['LORE1'],
    ],
  ]
  for (const [what, entries, messages, expected, book = {}] of scenarios) {
    test(what, () => {
      expect(fired(entries, messages, book)).toEqual(expected)
      // The same again: nothing is left over from the first time.
      expect(fired(entries, messages, book)).toEqual(expected)
    })
  }

  test('6.6 keys are looked for in the description as well where an entry says so', () => {
    const entry = { keys: ['moss garden'], extensions: { match_character_description: true } }
    expect(fired([entry, { keys: ['moss garden'] }], 'Hi', {}, { description: 'A {{char}} garden.' })).toEqual([
      'LORE0',
    ])
  })

  test('6.6 of a group one stays: the highest that overrides, else one by weight, the same for a conversation', () => {
    const of = (extensions: readonly Entry[]) =>
      extensions.map((each) => ({ constant: true, insertion_order: 1, extensions: { group: 'g', ...each } }))
    expect(fired(of([{}, { group_override: true }, {}]), 'x')).toEqual(['LORE1'])
    expect(fired(of([{ group_weight: 0 }, { group_weight: 10 }]), 'x')).toEqual(['LORE1'])
    const lots = new Set(
      Array.from({ length: 30 }, (_none, index) =>
        fired(of([{}, {}, {}]), 'x', {}, {}, { conversationId: `${index}` }).join(),
      ),
    )
    expect([...lots].sort()).toEqual(['LORE0', 'LORE1', 'LORE2'])
    expect(fired(of([{}, {}, {}]), 'x', {}, {}, { conversationId: '1' })).toEqual(
      fired(of([{}, {}, {}]), 'x', {}, {}, { conversationId: '1' }),
    )
  })

  test('6.6 probability is drawn', () => {
    const entry = { constant: true, extensions: { probability: 50, useProbability: true } }
    expect(fired([entry], 'x', {}, {}, { random: () => 0.49 })).toEqual(['LORE0'])
    expect(fired([entry], 'x', {}, {}, { random: () => 0.5 })).toEqual([])
  })
})

describe('6.3 recursion', () => {
  const chain = [
    { keys: ['tea'], content: 'a cup' },
    { keys: ['cup'], content: 'a pot' },
    { keys: ['pot'], content: 'POT' },
  ]
  const cases: readonly (readonly [string, readonly (Entry | undefined)[], Entry, readonly string[]])[] = [
    ['entries name others, each fires once', chain, {}, ['a cup', 'a pot', 'POT']],
    ['not where the book says no', chain, { recursive_scanning: false }, ['a cup']],
    [
      'not for those that exclude it',
      [chain[0], { ...chain[1], extensions: { exclude_recursion: true } }],
      {},
      ['a cup'],
    ],
    [
      'not from those that prevent it',
      [{ ...chain[0], extensions: { prevent_recursion: true } }, chain[1]],
      {},
      ['a cup'],
    ],
    [
      'only from lore for those that wait for it',
      [
        chain[0],
        { keys: ['tea'], content: 'NO', extensions: { delay_until_recursion: true } },
        { keys: ['cup'], content: 'YES', extensions: { delay_until_recursion: true } },
      ],
      {},
      ['a cup', 'YES'],
    ],
    [
      'hidden keys count, comments do not',
      [
        { keys: ['tea'], content: 'A{{hidden_key:cup}}{{// pot}}' },
        ...chain.slice(1, 2).map((entry) => ({ ...entry, content: 'C' })),
        { keys: ['pot'], content: 'P' },
      ],
      {},
      ['A', 'C'],
    ],
    [
      'whatever the scan depth',
      [
        { constant: true, content: 'a cup' },
        { ...chain[1], content: 'C' },
      ],
      { scan_depth: 0 },
      ['a cup', 'C'],
    ],
    [
      'with secondary keys from the chat and lore together',
      [chain[0], { keys: ['cup'], selective: true, secondary_keys: ['tea'], content: 'BOTH' }],
      {},
      ['a cup', 'BOTH'],
    ],
    [
      'failure mode 23: circles end, and each is inserted once',
      [
        { keys: ['tea', 'b'], content: 'a' },
        { keys: ['a'], content: 'b' },
        { keys: ['b'], content: 'tea' },
      ],
      {},
      ['a', 'b', 'tea'],
    ],
  ]
  test.each(cases)('6.3 %s', (_what, entries, book, expected) => {
    expect(
      fired(
        entries.filter((entry) => entry !== undefined),
        'tea',
        book,
      ),
    ).toEqual(expected)
  })

  test('15 a chain of 1,000 ends after 50 passes', () => {
    const entries = Array.from({ length: 1000 }, (_none, index) => ({
      keys: [`k${index}.`],
      content: `k${index + 1}.`,
    }))
    expect(fired(entries, 'k0.').length).toBe(51)
  })
})

describe('6.1 token_budget', () => {
  const count = (text: string) => text.length
  const entries = [
    { constant: true, content: 'aaaa', priority: 3 },
    { constant: true, content: 'bbbb', priority: 1 },
    { constant: true, content: 'cccc', insertion_order: 2 },
    { constant: true, content: '@@ignore_on_max_context\ndddd', priority: 9 },
    { constant: true, content: 'eeee', priority: 1 },
  ]
  test.each([
    [20, ['aaaa', 'bbbb', 'dddd', 'eeee', 'cccc']],
    [16, ['aaaa', 'bbbb', 'eeee', 'cccc']],
    [12, ['aaaa', 'bbbb', 'cccc']],
    [11, ['aaaa', 'cccc']],
    [4, ['aaaa']],
    [3, []],
    [0, ['aaaa', 'bbbb', 'dddd', 'eeee', 'cccc']],
  ])(
    '6.3 of %i tokens, the lowest priority goes first, later ones of equals before earlier',
    (token_budget, expected) => {
      expect(fired(entries, 'x', { token_budget }, {}, { count })).toEqual(expected)
    },
  )

  test('6.1 without one it is a quarter of a known context', () => {
    const result = composed(cardWithLore(entries), 'x', { contextWindow: 36, count: (text) => count(text) / 4 + 1 })
    expect(result.lore.filter(({ dropped }) => dropped === 'budget').length).toBeGreaterThan(0)
    expect(result.dropped.lore).toBe(result.lore.filter(({ dropped }) => dropped).length)
  })
})

describe('7.1 decorator grammar', () => {
  const place = (content: string, data: Entry = {}) =>
    told(
      composed(cardWithLore([{ constant: true, content }], {}, data), [user('1'), user('2')], {
        settings: { systemPrompt: '' },
      }),
    )
  const above = ['system: BODY', 'user: 1', 'user: 2']
  const atDepth1 = ['user: 1', 'system: BODY', 'user: 2']
  test.each([
    [
      'the leading lines and the blank lines around them go',
      ' \r\n @@depth 1\r\n  @@role user\r\n\r\nBODY\r\n',
      ['user: 1', 'user: BODY', 'user: 2'],
    ],
    ['the first other line ends them', '@@depth 1\nBODY\n@@depth 0', ['user: 1', 'system: BODY\n@@depth 0', 'user: 2']],
    ['unknown and invalid ones are ignored', '@@unheard x\n@@depth many\n@@role nobody\nBODY', above],
    ['a fallback counts when the one above was ignored', '@@unheard\n@@@depth 1\nBODY', atDepth1],
    ['and not when it was not', '@@depth 1\n@@@depth 0\nBODY', atDepth1],
    [
      'a chain of fallbacks is tried top to bottom',
      '@@a\n@@@b\n@@@c\n@@@d\n@@@e\n@@@f\n@@@depth 1\n@@@depth 0\nBODY',
      atDepth1,
    ],
    ['a fallback with nothing above is ignored', '@@@depth 0\nBODY', above],
    ['of a repeated name the first counts', '@@depth 1\n@@depth 0\nBODY', atDepth1],
    ['instruct variants never apply, their fallbacks do', '@@instruct_depth 5\n@@@depth 1\nBODY', atDepth1],
    ['icons are not known here, the fallback counts', '@@is_user_icon x\n@@@depth 1\nBODY', atDepth1],
    ['@@position of an empty section gives way to its fallback', '@@position scenario\n@@@depth 1\nBODY', atDepth1],
    ['@@position wins over @@depth, and that over @@reverse_depth', '@@depth 1\n@@reverse_depth 0\nBODY', atDepth1],
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
    ['activate without any key', '@@activate', 'x', true],
    [
      'activate is stronger than dont_activate and conditions',
      '@@dont_activate\n@@activate_only_after 9\n@@activate',
      'x',
      true,
    ],
    ['dont_activate', '@@dont_activate', 'tea', false, { constant: true }],
    ['activate_only_after, not yet', '@@activate_only_after 3', talk, false, { constant: true }],
    ['activate_only_after, reached', '@@activate_only_after 2', talk, true, { constant: true }],
    ['activate_only_every, no', '@@activate_only_every 3', talk, false, { constant: true }],
    ['activate_only_every, yes', '@@activate_only_every 2', talk, true, { constant: true }],
    ['activate_only_every, none yet', '@@activate_only_every 3', 'x', true, { constant: true }],
    ['keep_activate_after_match', '@@keep_activate_after_match\n@@scan_depth 1', talk, true],
    ['keep_activate_after_match, never matched', '@@keep_activate_after_match\n@@scan_depth 1', talk.slice(1), false],
    ['dont_activate_after_match', '@@dont_activate_after_match\n@@scan_depth 9', talk, false],
    [
      'dont_activate_after_match, the first time',
      '@@dont_activate_after_match',
      [user('x'), assistant('y'), user('tea')],
      true,
    ],
    ['scan_depth', '@@scan_depth 1', talk, false],
    ['is_greeting, the active one', '@@is_greeting 0', [assistant('GREETING'), user('tea')], true],
    ['is_greeting, another', '@@is_greeting 1', [assistant('GREETING'), user('tea')], false],
    [
      'is_greeting, ignored where it cannot be told',
      '@@is_greeting 1',
      [assistant('Something else'), user('tea')],
      true,
    ],
    ['additional_keys', '@@additional_keys cup, mug', 'tea mug', true],
    ['additional_keys, each line', '@@additional_keys cup, mug\n@@additional_keys milk', 'tea mug', false],
    ['additional_keys of a constant entry', '@@additional_keys cup', 'x', false, { constant: true }],
    ['exclude_keys', '@@exclude_keys cup, mug', 'tea mug', false],
    ['exclude_keys, none', '@@exclude_keys cup, mug', 'tea', true],
    ['exclude_keys, ignored with a regex', '@@exclude_keys cup', 'tea cup', true, { keys: ['/tea/'] }],
    ['match_full_word', '@@match_full_word', 'steam', false],
    ['probability 0', '@@probability 0', 'tea', false],
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

  test('7.2 is_greeting follows the greeting that the request names', () => {
    const data = { first_mes: 'A', alternate_greetings: ['B'] }
    expect(fired([{ constant: true, content: '@@is_greeting 1\nBODY' }], 'x', {}, data, { greeting: 1 })).toEqual([
      'BODY',
    ])
  })

  test("7.2 disable_ui_prompt drops the operator's text, and the card's stays", () => {
    const settings = { systemPrompt: 'OPERATOR', postHistoryPrompt: 'POST' }
    const entries = [
      {
        keys: ['tea'],
        content: '@@disable_ui_prompt system_prompt\n@@disable_ui_prompt post_history_instructions\nBODY',
      },
    ]
    expect(told(composed(cardWithLore(entries), 'tea', { settings }))).toEqual(['system: BODY', 'user: tea'])
    expect(
      told(composed(cardWithLore(entries, {}, { system_prompt: 'CARD {{original}}' }), 'tea', { settings }))[0],
    ).toBe('system: CARD\n\nBODY')
    expect(told(composed(cardWithLore(entries), 'no', { settings }))).toEqual([
      'system: OPERATOR',
      'user: no',
      'system: POST',
    ])
  })

  test('7.2 several prefills are one message', () => {
    const entries = ['A', 'B'].map((body) => ({ constant: true, content: `@@depth 0\n@@role assistant\n${body}` }))
    expect(told(composed(cardWithLore(entries), 'x')).at(-1)).toBe('assistant: A\nB')
  })
})

describe('15 a hostile book takes bounded time', () => {
  /** Milliseconds of the processor's time: what else the machine does is not counted. */
  const timed = (work: () => void) => {
    const before = process.threadCpuUsage()
    work()
    return process.threadCpuUsage(before).user / 1000
  }
  const long = user('a'.repeat(200_000))

  test('15 failure mode 23: evil regexes', () => {
    const keys = ['/(a+)+$/', '/(a|aa)+b/', '/(a*)*c/', '/(.*)*x$/', '/(a?){50}a{50}b/']
    const card = cardWithLore(Array.from({ length: 100 }, () => ({ keys })))
    expect(timed(() => composed(card, [long]))).toBeLessThan(3000)
  })

  test('15 20,000 entries of 64 keys against a long text, and what was not looked for is told', () => {
    const keys = Array.from({ length: 64 }, (_none, index) => `${'a'.repeat(20)}b${index}`)
    const card = cardWithLore(Array.from({ length: 5000 }, () => ({ keys })))
    const result = { lore: 0 }
    expect(
      timed(() => {
        result.lore = composed(card, [long]).dropped.lore
      }),
    ).toBeLessThan(3000)
    expect(result.lore).toBeGreaterThanOrEqual(0)
  })

  test('15 constants without end stay below the cap, and are told of', () => {
    const card = cardWithLore(Array.from({ length: 300 }, () => ({ constant: true, content: 'x'.repeat(10_000) })))
    const result = composed(card, 'Hi')
    expect(JSON.stringify(result.messages).length).toBeLessThan(1.2 * 1024 ** 2)
    expect(result.dropped.lore).toBeGreaterThan(100)
    expect(result.lore.some(({ dropped }) => dropped === 'limit')).toBe(true)
  })
})
