import { describe, expect, test } from 'vitest'
import type { Message } from '../../../src/openai/completion-request.ts'
import { assistant, cardWithLore, composed, firedIn, system, user } from '../../support/lore-cards.ts'

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

const fromSillyTavern = { extensions: { position: 1, display_index: 0 } }

describe('6 matching', () => {
  const scenarios: readonly (readonly [
    string,
    readonly Entry[],
    readonly Message[] | string,
    readonly string[],
    Entry?,
  ])[] = [
    [
      '6.2 one key is enough, and several keys add the content only once',
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
      '6.2 letter case matters only with case_sensitive',
      [{ keys: ['Tea'] }, { keys: ['Tea'], case_sensitive: true }, { keys: ['tea'], case_sensitive: true }],
      'tea',
      ['LORE0', 'LORE2'],
    ],
    [
      '6.2 letter case is ignored in every script',
      [{ keys: ['ЧАЙ'] }, { keys: ['茶'] }, { keys: ['CAFÉ'] }],
      'чай, 茶, café',
      ['LORE0', 'LORE1', 'LORE2'],
    ],
    ['6.2 a constant entry needs no key', [{ constant: true }], 'x', ['LORE0']],
    [
      '6.2 a selective entry needs a key of each list',
      [
        { keys: ['tea'], selective: true, secondary_keys: ['cup', 'pot'] },
        { keys: ['tea'], selective: true, secondary_keys: ['mug'] },
      ],
      'tea pot',
      ['LORE0'],
    ],
    [
      '6.2 selective without secondary keys has no effect',
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
    [
      '6.2 secondary keys are ignored if the entry is not selective',
      [{ keys: ['tea'], secondary_keys: ['mug'] }],
      'tea',
      ['LORE0'],
    ],
    [
      '6.2 entries are sorted by insertion order; entries with the same order keep the order of the file',
      [
        { constant: true, insertion_order: 1.5 },
        { constant: true, insertion_order: -2 },
        { constant: true, insertion_order: 1.5 },
      ],
      'x',
      ['LORE1', 'LORE0', 'LORE2'],
    ],
    ['6.3 blank keys never match', [{ keys: [' ', ''] }], ' a b ', []],
    [
      '6.3 a key whose macros expand to nothing never matches',
      [
        { keys: ['{{// note}}'] },
        { keys: ['{{persona}}'], extensions: { match_whole_words: true } },
        { keys: ['tea'], selective: true, secondary_keys: ['{{// note}}'] },
      ],
      'tea',
      [],
    ],
    ['6.3 a Greek word matches inside a longer word', [{ keys: ['ΟΔΟΣ'] }], 'ΟΔΟΣΑ', ['LORE0']],
    [
      '6.3 a Greek word matches with its case',
      [
        { keys: ['ΟΔΟΣ'], case_sensitive: true },
        { keys: ['οδος'], case_sensitive: true },
      ],
      'ΟΔΟΣΑ',
      ['LORE0'],
    ],
    ['6.3 keys may occur inside a word', [{ keys: ['ea'] }], 'steam', ['LORE0']],
    [
      '6.3 no literal key matches across two messages',
      [{ keys: ['one two'] }, { keys: ['one\ntwo'] }],
      [user('one'), user('two')],
      [],
    ],
    [
      '6.3 comments in messages are not scanned',
      [{ keys: ['tea'] }, { keys: ['cup'] }, { keys: ['pot'] }],
      '{{// tea}} {{comment: cup}} {{//}}tea {{char}} cup{{///}} pot',
      ['LORE2'],
    ],
    ['6.3 speaker names are not scanned', [{ keys: ['moss'] }, { keys: ['user'] }], [assistant('Hm'), user('Hi')], []],
    ['6.3 system messages are not scanned', [{ keys: ['tea'] }], [system('tea'), user('Hi')], []],
    [
      '6.3 macros in keys are expanded',
      [{ keys: ['{{char}} the great'] }, { keys: ['<user>!'] }],
      'moss the great, user!',
      ['LORE0', 'LORE1'],
    ],
    [
      '6.1 scan_depth is the number of newest messages that are scanned',
      [{ keys: ['tea'] }, { keys: ['cup'] }],
      [user('tea'), assistant('cup'), user('x')],
      ['LORE1'],
      { scan_depth: 2 },
    ],
    ['6.1 scan_depth 0 scans no message', [{ keys: ['tea'] }, { constant: true }], 'tea', ['LORE1'], { scan_depth: 0 }],
    [
      '6.1 four messages are scanned by default',
      [{ keys: ['tea'] }, { keys: ['cup'] }],
      [user('tea'), ...['cup', '2', '3', '4'].map(user)],
      ['LORE1'],
    ],
    [
      '6.3 an entry may have its own scan depth',
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
      '6.4 use_regex has no effect on an entry without a regex',
      [
        { keys: ['te.'], use_regex: true },
        { use_regex: true, constant: true },
        { keys: ['tea'], use_regex: true, selective: true, secondary_keys: ['mug'] },
      ],
      'tea',
      ['LORE1'],
    ],
    [
      '6.4 keys in slashes are regexes if use_regex is true or absent',
      [{ keys: ['/T.A/i'], use_regex: true }, { keys: ['/t.a/'] }, { keys: ['/t.a/'], use_regex: false }],
      'tea',
      ['LORE0', 'LORE1'],
    ],
    [
      '6.4 keys in slashes are plain text if use_regex is false',
      [{ keys: ['/t.a/'], use_regex: false }],
      'a /T.A/',
      ['LORE0'],
    ],
    [
      '6.4 an effective regex switches constant and selective off',
      [
        { keys: ['/nope/'], use_regex: true, constant: true },
        { keys: ['/tea/'], use_regex: true, selective: true, secondary_keys: ['mug'] },
      ],
      'tea',
      ['LORE1'],
    ],
    [
      "6.4 an effective regex of SillyTavern's entries leaves constant and selective on",
      [
        { keys: ['/nope/'], use_regex: true, constant: true, ...fromSillyTavern },
        { keys: ['/tea/'], use_regex: true, selective: true, secondary_keys: ['mug'], ...fromSillyTavern },
      ],
      'tea',
      ['LORE0'],
    ],
    [
      '6.4 an invalid regex matches nothing, not even its own text; other keys of the entry count',
      [{ keys: ['/(/', 'cup'], use_regex: true }, { keys: ['/(/'], use_regex: true }, { keys: ['/(?<=a)b/'] }],
      '/(/ ab cup',
      ['LORE0'],
    ],
    [
      '6.4 the flags s and m have an effect, g and y have no effect',
      [{ keys: ['/tea/gy'] }, { keys: ['/a.b/s'] }, { keys: ['/^b$/m'] }, { keys: ['/^b$/'] }],
      'x tea a\nb',
      ['LORE0', 'LORE1', 'LORE2'],
    ],
    ['6.4 unknown flags make the key plain text', [{ keys: ['/tea/q'] }], 'x /tea/q', ['LORE0']],
    ['6.4 every regex of an entry is tried', [{ keys: ['/a/', '/b/', '/c/'] }], 'c', ['LORE0']],
    [
      '6.6 selectiveLogic with one of two secondary keys in the text',
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
      '6.6 selectiveLogic without a secondary key in the text',
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
      '6.6 match_whole_words refuses keys inside words',
      [
        { keys: ['tea'], extensions: { match_whole_words: true } },
        { keys: ['чай'], extensions: { match_whole_words: true } },
      ],
      'steam teas; чай!',
      ['LORE1'],
    ],
    [
      '6.6 delay holds an entry back until the conversation has so many messages',
      [
        { keys: ['tea'], extensions: { delay: 2 } },
        { keys: ['tea'], extensions: { delay: 1 } },
      ],
      'tea',
      ['LORE1'],
    ],
    [
      '6.6 probability 0 prevents a match, unless useProbability is false',
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
      const card = cardWithLore(entries, book)
      expect(firedIn(composed(card, messages))).toEqual(expected)
      // A second scan of the card finds the same: the first scan leaves no state behind.
      expect(firedIn(composed(card, messages))).toEqual(expected)
    })
  }

  test('6.6 match_character_description: keys are searched for in the description as well', () => {
    const entry = { keys: ['moss garden'], extensions: { match_character_description: true } }
    expect(fired([entry, { keys: ['moss garden'] }], 'Hi', {}, { description: 'A {{char}} garden.' })).toEqual([
      'LORE0',
    ])
  })

  test('6.6 a group keeps one entry: an overriding entry, otherwise an entry drawn by weight and conversation_id', () => {
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

  test('6.6 an entry fires if the draw is below its probability', () => {
    const entry = { constant: true, extensions: { probability: 50, useProbability: true } }
    expect(fired([entry], 'x', {}, {}, { random: () => 0.49 })).toEqual(['LORE0'])
    expect(fired([entry], 'x', {}, {}, { random: () => 0.5 })).toEqual([])
  })
})
