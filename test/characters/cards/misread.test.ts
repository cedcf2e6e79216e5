import { expect, test } from 'vitest'
import { describeCard } from '../../../src/characters/cards/description.ts'
import { readCardBytes } from '../../../src/characters/library/jobs.ts'
import { readLorebook } from '../../../src/characters/lore/lorebook.ts'
import { cardOfV1, cardOfV2, jsonBytes, refusal } from '../../support/cards.ts'
import { zip } from '../../support/containers.ts'

function summaryOf(document: object) {
  const { card, source, notes } = readCardBytes(jsonBytes(document))
  return describeCard(card, source, notes)
}

const withData = (fields: object) => ({ ...cardOfV2, data: { ...cardOfV2.data, ...fields } })
const withBook = (book: unknown) => withData({ character_book: book })
const withEntry = (entry: object, book: object = {}) =>
  withBook({ ...book, entries: [{ keys: ['k'], content: 'x', enabled: true, insertion_order: 0, ...entry }] })

test.each<[object, object, RegExp | undefined]>([
  [{}, {}, undefined],
  [{ keys: [] }, {}, /^entries\[0\]: no keys, and not constant$/],
  [{ keys: [' '], name: 'Moss' }, {}, /^entries\[0\] "Moss": no keys/],
  [{ keys: [], constant: true }, {}, undefined],
  [{ keys: [], content: '@@activate\nx' }, {}, undefined],
  [{ keys: [], content: '@@is_greeting 1\nx' }, {}, /no keys/],
  [{ keys: [], enabled: false }, {}, undefined],
  [{ content: '' }, {}, /no content$/],
  [{ content: '@@depth 4\n' }, {}, /no content$/],
  [{ content: '@@dont_activate\nx' }, {}, /@@dont_activate/],
  [{ keys: ['/(?=a)/'] }, {}, /refused regular expressions/],
  [{ keys: ['/(?=a)/', 'plain'] }, {}, undefined],
  [{ extensions: { probability: 0, useProbability: true } }, {}, /probability of 0/],
  [{ extensions: { position: 7 } }, {}, /outlet/],
  [{ extensions: { position: 7 }, content: '@@reverse_depth 1\nLore.' }, {}, undefined],
  [{ extensions: { triggers: ['quiet'] } }, {}, /triggers/],
  [{ extensions: { triggers: ['quiet', 'continue'] } }, {}, undefined],
  [{ content: '@@position personality\n@@@probability 0\nLore.' }, {}, undefined],
  [{ extensions: { delay_until_recursion: true } }, { recursive_scanning: false }, /without recursion/],
  [{}, { scan_depth: 0, recursive_scanning: false }, /scan depth of 0/],
  [{}, { scan_depth: 0 }, undefined],
  [{ content: '@@scan_depth 3\nx' }, { scan_depth: 0, recursive_scanning: false }, undefined],
])('the summary names lore that can never fire: %j in %j', (entry, book, reason) => {
  const { never_fire } = summaryOf(withEntry(entry, book))
  expect(never_fire).toEqual(reason === undefined ? [] : [expect.stringMatching(reason)])
})

test('extensions of an entry that are read are not reported as ignored', () => {
  const { ignored } = summaryOf(withEntry({ extensions: { sticky: 5, cooldown: 3, delay: 2, unknown: 1 } }))
  expect(ignored.filter((name) => name.startsWith('character_book'))).toEqual([
    'character_book.entries[].extensions.unknown',
  ])
})

test('the summary names at most twenty entries that never fire, and how many more there are', () => {
  const { never_fire } = summaryOf(
    withBook({ entries: Array.from({ length: 50 }, () => ({ keys: [], content: 'x' })) }),
  )
  expect(never_fire).toHaveLength(21)
  expect(never_fire.at(-1)).toBe('and 30 more')
})

test.each<[string, object, readonly RegExp[]]>([
  ['a sound card', cardOfV2, []],
  ['a sound V1 card with fields of programs', { ...cardOfV1, create_date: 'x', avatar: 'none' }, []],
  ['`key` for `keys`', withEntry({ keys: undefined, key: ['a'] }), [/`key` is not read in a card\. Name it `keys`\./]],
  ['a text for keys', withEntry({ keys: 'a, b' }), [/read as one key with its commas\. Write a list/]],
  ['a text for greetings', withData({ alternate_greetings: 'Hi' }), [/alternate_greetings is a text.+Write a list/]],
  ['a text for tags', withData({ tags: 'a, b' }), [/tags is a text and is split at its commas/]],
  [
    'a number among greetings',
    withData({ alternate_greetings: ['a', 5] }),
    [/alternate_greetings has values that are not texts/],
  ],
  ['an object for tags', withData({ tags: { a: 1 } }), [/tags is not a list and is not read/]],
  ['null among keys', withEntry({ keys: ['a', null] }), [/`keys` has values that are not texts/]],
  [
    'a text for a switch',
    withEntry({ constant: 'true' }),
    [/`constant` is neither true nor false, and is read as false/],
  ],
  ['a text that switches off', withEntry({ enabled: 'false' }), [/`enabled` .+ read as false/]],
  ['a text that switches nothing off', withEntry({ enabled: 'no' }), [/`enabled` .+ read as true/]],
  [
    'a model that is a number',
    withData({ extensions: { conservatory: { model: 5 } } }),
    [/extensions\.conservatory\.model is not a model id/],
  ],
  ['a list for a text', withData({ description: ['x'] }), [/description is not a text and is not read/]],
  ['extensions that are a text', withData({ extensions: 'x' }), [/extensions is not an object/]],
  ['a book as a list', withBook([{ keys: ['a'], content: 'x' }]), [/character_book is a list and is not read/]],
  [
    'a book at the root',
    { ...cardOfV2, character_book: { entries: [], name: 'x' } },
    [/character_book stands at the root/],
  ],
  ['entries that are a text', withBook({ entries: 'x' }), [/entries is not a list/]],
  [
    'world info in a card',
    withBook({ entries: { 0: { uid: 0, key: ['a'], keysecondary: [], content: 'x' } } }),
    [/object in the naming of SillyTavern's world info/, /`key` is not read/, /`keysecondary` is not read/],
  ],
  [
    "V1 with V2's fields",
    { ...cardOfV1, alternate_greetings: ['x'], character_book: { entries: [1] }, system_prompt: '' },
    [/V1, which has no alternate_greetings, character_book: they are not read/],
  ],
  ["Agnai's book in a card", withBook({ entries: [{ keywords: ['a'], entry: 'x' }] }), [/memory book in Agnai's/]],
  [
    "Agnai's character",
    { kind: 'character', name: 'A', scenario: 'x', persona: {} },
    [/character in Agnai's own format/],
  ],
])('the summary warns of misread fields: %s', (_what, document, sentences) => {
  expect(summaryOf(document).warnings).toEqual(sentences.map((sentence) => expect.stringMatching(sentence)))
})

test.each<[string, object, string]>([
  [
    'Agnai',
    { kind: 'memory', name: 'x', entries: [{ keywords: ['a'], entry: 'x' }] },
    "memory book in Agnai's own format",
  ],
  ['NovelAI', { lorebookVersion: 5, entries: [{ text: 'x', keys: ['a'] }] }, "lorebook in NovelAI's own format"],
  ['RisuAI', { type: 'risu', ver: 1, data: [{ key: 'a', content: 'x' }] }, "lorebook in RisuAI's own format"],
  ['Voxta', { $type: 'book', Name: 'x', Items: [] }, "memory book in Voxta's own format"],
])(
  'a lorebook of %s is refused, as a card and as a lorebook, with the name of its format',
  (_program, document, what) => {
    expect(refusal(jsonBytes(document))).toMatchObject({ code: 'card_invalid', message: expect.stringContaining(what) })
    expect(() => readLorebook({ ...document })).toThrow(what)
  },
)

test.each<[string, Buffer, string]>([
  ['Voxta', jsonBytes({ $type: 'character', Id: 'x', Name: 'A', Profile: 'x' }), "character in Voxta's own format"],
  ['Voxta', zip([{ name: 'package.json' }, { name: 'Characters/0a/character.json' }]), 'a Voxta package'],
  ['RisuAI', jsonBytes({ type: 'risuModule', module: {} }), 'RisuAI module'],
  ['NovelAI', jsonBytes({ scenarioVersion: 3, title: 'x' }), 'NovelAI story'],
  [
    'no particular program',
    jsonBytes({ entries: [{ keys: ['a'], content: 'x' }] }),
    'a lorebook, and not a character card',
  ],
])('a file of %s that is not a card is refused, and the message names its format', (_program, bytes, what) => {
  expect(refusal(bytes)?.message).toContain(what)
})
