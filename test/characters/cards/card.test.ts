import { describe, expect, test } from 'vitest'
import { readCard } from '../../../src/characters/cards/card.ts'
import { type CardSummary, describeCard } from '../../../src/characters/cards/description.ts'
import { memoryOf } from '../../../src/characters/cards/kept-card.ts'
import { hiddenFields } from '../../../src/characters/cards/summary.ts'
import { CardError } from '../../../src/characters/documents/card-error.ts'
import { emptyNotes } from '../../../src/characters/lore/lorebook.ts'
import { documentOf, keptBook } from '../../support/kept-cards.ts'
import { cardIn, cardOf, cardWithLore, composed, firedIn, promptLines } from '../../support/lore-cards.ts'

type Document = Readonly<Record<string, unknown>>

function describedOf(document: Document): CardSummary {
  const notes = emptyNotes()
  return describeCard(readCard(document, notes), { document, warnings: [] }, notes)
}

describe('the summary of a card', () => {
  test('names at most 20 ignored fields, and how many more there are', () => {
    const unknown = Object.fromEntries(Array.from({ length: 1000 }, (_none, index) => [`f${index}`, 1]))
    const { ignored } = describedOf(documentOf(unknown))
    expect(ignored.length).toBe(21)
    expect(ignored.slice(-2)).toEqual(['f19', 'and 980 more'])
  })

  test('names at most 20 refused patterns, and how many more there are', () => {
    const entries = Array.from({ length: 30 }, (_none, index) => ({ keys: [`/(?=${index})/`], content: 'x' }))
    const { refused_regexes } = describedOf(documentOf({ character_book: { entries } }))
    expect(refused_regexes.length).toBe(21)
    expect(refused_regexes.at(-1)).toBe('and 10 more')
  })

  test('names a pattern that unfolds to too many instructions as refused, without compiling it', () => {
    const entries = [{ keys: [`/${'(a{1,30}){1,30}'.repeat(30)}/`, '/a{1,30}/'], content: 'x' }]
    const { regexes, refused_regexes } = describedOf(documentOf({ character_book: { entries } }))
    expect([regexes, refused_regexes.length]).toEqual([1, 1])
  })

  test('reports an entry with too many decorators; its body begins after all decorators', () => {
    const content = `@@depth 1\n${'@@additional_keys a\n'.repeat(20_000)}Body`
    const document = documentOf({ character_book: { entries: [{ keys: ['tea'], content }] } })
    expect(describedOf(document).ignored).toEqual([
      'character_book.entries[].content has too many or too long decorators',
    ])
    expect(cardIn(document).book?.entries[0]?.body).toBe('Body')
  })

  test('reports a decorator that is too long to be read; the body begins after it', () => {
    const document = (length: number) =>
      documentOf({
        character_book: { entries: [{ keys: ['tea'], content: `@@depth ${' '.repeat(length - 9)}1\nBody` }] },
      })
    expect(cardIn(document(100_000)).book?.entries[0]).toMatchObject({ body: 'Body', decorators: { 0: { depth: 1 } } })
    expect(describedOf(document(100_001)).ignored).toEqual([
      'character_book.entries[].content has too many or too long decorators',
    ])
    expect(cardIn(document(100_001)).book?.entries[0]).not.toMatchObject({ decorators: { 0: { depth: 1 } } })
  })

  test('ignores a decorator whose value is too long for a number', () => {
    const content = `@@depth ${'0'.repeat(40)}1\nBody`
    const document = documentOf({ character_book: { entries: [{ keys: ['tea'], content }] } })
    expect(describedOf(document).ignored).toEqual(['character_book.entries[].@@depth'])
  })

  test('reads the keys of a decorator once for all contexts, and counts their memory', () => {
    const lists = (count: number) =>
      `@@additional_keys ${Array.from({ length: 64 }, (_, i) => i).join()}\n`.repeat(count)
    const document = (count: number) =>
      cardIn(
        documentOf({ character_book: { entries: [{ keys: ['tea'], content: `@@is_greeting 1\n${lists(count)}x` }] } }),
      )
    const rules = document(1).book?.entries[0]?.decorators ?? []
    expect(new Set(rules.map(({ additional }) => additional[0])).size).toBe(1)
    expect(memoryOf(document(1), 0)).toBeGreaterThan(memoryOf(document(0), 0) + 64 * 100)
  })

  test('only the first 200 characters of a group count, which is reported', () => {
    const group = 'g'.repeat(200)
    const entries = ['1', '2'].map((end) => ({ keys: ['tea'], content: 'x', extensions: { group: `${group}${end}` } }))
    const document = documentOf({ character_book: { entries } })
    expect(describedOf(document).ignored).toEqual([
      'character_book.entries[].extensions.group of more than 200 characters',
    ])
    expect(cardIn(document).book?.entries.map(({ groups }) => groups)).toEqual([[`${group}…`], [`${group}…`]])
  })

  test('a filter with a tag of millions of digits is read', () => {
    const entries = [{ keys: ['tea'], content: 'x', character_filter: { tags: ['1'.repeat(12_000_000)] } }]
    expect(cardIn(documentOf({ character_book: { entries } })).book?.entries).toHaveLength(1)
  })

  test.each(['name', 'nickname'] as const)(
    'a %s of more than 1,000 characters counts as missing, and is reported',
    (field) => {
      expect(cardIn(documentOf({ [field]: 'M'.repeat(1000) }))[field]).toBe('M'.repeat(1000))
      expect(cardIn(documentOf({ [field]: 'M'.repeat(1001) }))[field]).toBe('')
      expect(describedOf(documentOf({ [field]: 'M'.repeat(1001) })).ignored).toEqual([
        `${field} of more than 1000 characters`,
      ])
    },
  )

  test.each([
    [20, []],
    [21, ['character_book.entries[].extensions.group[20…]']],
  ])('reports the groups after the 20th of an entry with %i groups', (count, expected) => {
    const group = Array.from({ length: count }, (_none, index) => `g${index}`).join(',')
    const entries = [{ keys: ['tea'], content: 'x', extensions: { group } }]
    const document = documentOf({ character_book: { entries } })
    expect(describedOf(document).ignored).toEqual(expected)
    expect(cardIn(document).book?.entries[0]?.groups).toHaveLength(20)
  })
})

describe('1 detection', () => {
  test.each([
    ['V3', { spec: 'chara_card_v3', data: { name: 'Moss', description: 'D' } }, 'chara_card_v3'],
    ['V2', { spec: 'chara_card_v2', spec_version: '2.0', data: { name: 'Moss', description: 'D' } }, 'chara_card_v2'],
    ['V1', { name: 'Moss', description: 'D', creatorcomment: 'x' }, 'v1'],
    ['an unknown spec with data', { spec: 'chara_card_v9', data: { name: 'Moss', description: 'D' } }, 'chara_card_v3'],
    ['no spec with data', { data: { name: 'Moss', description: 'D' } }, 'chara_card_v3'],
    ['a spec without data but V1 fields', { spec: 'chara_card_v2', name: 'Moss', description: 'D' }, 'v1'],
    ['Pygmalion names', { char_name: 'Moss', char_persona: 'D' }, 'v1'],
    [
      'a copy of the fields at the root, but data counts',
      { spec: 'chara_card_v2', name: 'No', description: 'No', data: { name: 'Moss', description: 'D' } },
      'chara_card_v2',
    ],
  ])('1 the version and the fields are found: %s', (_what, document, spec) => {
    expect(cardIn(document)).toMatchObject({ spec, name: 'Moss', description: 'D' })
  })

  test('1 Pygmalion fields are mapped', () => {
    const card = cardIn({
      char_name: 'M',
      char_persona: 'D',
      char_greeting: 'G',
      world_scenario: 'S',
      example_dialogue: 'E',
    })
    expect(card).toMatchObject({ name: 'M', description: 'D', greetings: ['G'], scenario: 'S', examples: 'E' })
    expect(hiddenFields({ char_name: 'M', char_persona: 'D' })).toEqual({ description: 'D' })
  })

  test.each([
    ['nothing', {}],
    ['data that is an array', { spec: 'chara_card_v3', data: [] }],
    ['a package', { name: 'x', version: '1.0.0' }],
    ['an inherited name', JSON.parse('{"data":{"__proto__":{"name":"Moss"}}}')],
    ['a lorebook', { spec: 'lorebook_v3', data: { entries: [] } }],
  ])('1 %s is not a card', (_what, document) => {
    expect(() => cardIn(document)).toThrow(expect.objectContaining({ status: 400, code: 'card_invalid' }))
  })

  test.each([2, '3.0', '2.5', '', null, 'x'])('1 spec_version %j is not refused', (version) => {
    expect(cardIn({ ...documentOf({}), spec_version: version }).name).toBe('Moss')
  })

  test('1 a spec_version above 3.0 is reported, and the card is read', () => {
    const document = { ...documentOf({}), spec_version: '4.1' }
    expect(describedOf(document).ignored).toEqual(['spec_version 4.1'])
  })
})

describe('2 fields', () => {
  test('2 a text field that is missing, null or of another type is empty', () => {
    const card = cardIn({
      spec: 'chara_card_v3',
      data: { name: null, description: 5, personality: {}, scenario: [], first_mes: null },
    })
    expect(card).toMatchObject({
      name: '',
      description: '',
      personality: '',
      scenario: '',
      examples: '',
      greetings: [''],
    })
  })

  test("2.1 {{char}} is the card's name, which is never expanded itself; an empty name falls back to the persona's", () => {
    expect(promptLines(composed(cardOf({ name: '{{user}}', description: '{{char}} <BOT>' }), 'Hi'))[0]).toContain(
      '{{user}} {{user}}',
    )
    const nameless = cardOf({ name: ' ', description: 'I am {{char}}.' })
    expect(promptLines(composed(nameless, 'Hi', { name: 'File' }))[0]).toContain('I am File.')
  })

  test.each(['{{char}}', '<char>', '<bot>', '<BOT>'])('2.3 %s is the nickname, if there is one', (macro) => {
    expect(promptLines(composed(cardOf({ nickname: 'Mo', description: `I am ${macro}.` }), 'Hi'))[0]).toContain(
      'I am Mo.',
    )
    for (const nickname of ['', ' \n', '\u3000']) {
      const card = cardOf({ nickname, description: `I am ${macro}.` })
      expect(card.nickname).toBe('')
      expect(promptLines(composed(card, 'Hi'))[0]).toContain('I am Moss.')
    }
  })

  test('2.2 alternate greetings keep their index; a single text counts as a list of one greeting', () => {
    expect(cardOf({ first_mes: 'A', alternate_greetings: ['', 'C'] }).greetings).toEqual(['A', '', 'C'])
    expect(cardOf({ first_mes: 'A', alternate_greetings: 'B' }).greetings).toEqual(['A', 'B'])
  })

  test('2.4 scripts and other extensions are never run or sent', () => {
    const extensions = {
      regex_scripts: [{ findRegex: 'a', replaceString: 'EVIL' }],
      risuai: { triggerscript: ['EVIL'] },
    }
    expect(JSON.stringify(composed(cardOf({ extensions, description: 'aaa' }), 'a').messages)).not.toContain('EVIL')
  })
})

describe('11 leniency', () => {
  test('11 null counts as absent', () => {
    const card = cardIn({
      spec: 'chara_card_v2',
      data: { name: 'Moss', alternate_greetings: null, character_book: null, extensions: null, tags: 'a,b' },
    })
    expect(card.greetings).toEqual([''])
    expect(card.book).toBeUndefined()
  })

  test('11 entries may be an object; only broken entries are skipped; entries with the same id are all kept', () => {
    const entries = {
      0: null,
      1: 5,
      2: { content: 'NOKEYS' },
      3: { id: 1, keys: ['tea'], content: 'A' },
      4: { id: 1, keys: ['tea'], content: 'B' },
    }
    const card = cardOf({ character_book: { entries } })
    expect(firedIn(composed(card, 'tea'))).toEqual(['A', 'B'])
  })

  test.each(['', null, 3, 'in_chat'])('6.2 position %j is after_char', (position) => {
    const card = cardWithLore([{ constant: true, position }], {}, { description: 'D' })
    expect(promptLines(composed(card, 'Hi'))[0]).toBe('system: MAIN\n\nD\n\nLORE0')
  })

  test('11 numeric texts in extensions are numbers', () => {
    const card = cardWithLore([{ constant: true, extensions: { position: '4', depth: '0', role: '1' } }])
    expect(promptLines(composed(card, 'Hi')).at(-1)).toBe('user: LORE0')
  })
})

describe('15 limits', () => {
  test('15 more than 20,000 entries are refused, and the message names the field', () => {
    const entries = Array.from({ length: 20_001 }, () => ({}))
    expect(() => cardOf({ character_book: { entries } })).toThrow(CardError)
    expect(() => cardOf({ character_book: { entries } })).toThrow(/20001 entries\. At most 20000/)
  })

  test('15 a document of 500 levels is refused', () => {
    const deep = JSON.parse(`${'{"a":'.repeat(500)}1${'}'.repeat(500)}`)
    expect(() => cardOf({ extensions: deep })).toThrow(expect.objectContaining({ code: 'card_invalid' }))
  })

  test('15 only own properties are read, and prototypes are not polluted', () => {
    const document = JSON.parse(
      '{"spec":"chara_card_v3","data":{"name":"Moss","__proto__":{"description":"EVIL"},"constructor":{"prototype":{"x":1}},"character_book":{"entries":[{"__proto__":{"content":"EVIL","constant":true}}]}}}',
    )
    const { messages } = composed(cardIn(document), 'Hi')
    expect(JSON.stringify(messages)).not.toContain('EVIL')
    expect(Object.hasOwn(Object.prototype, 'x')).toBe(false)
  })

  test('15 control characters are not sent', () => {
    expect(promptLines(composed(cardOf({ description: 'A\0B\x1b[31mC\tD\nE' }), 'Hi'))[0]).toBe(
      'system: MAIN\n\nAB[31mC\tD\nE',
    )
  })
})

describe('describeCard', () => {
  test('14 summarizes a card and names all ignored fields', () => {
    const document = documentOf({
      first_mes: 'A',
      alternate_greetings: ['B', ''],
      system_prompt: 'S',
      group_only_greetings: ['G'],
      assets: [{ type: 'icon', uri: 'https://example.com/a.png', name: 'main', ext: 'png' }, { uri: 'ccdefault:' }],
      extensions: {
        depth_prompt: { prompt: 'x' },
        chub: { id: 1 },
        fav: false,
        talkativeness: '0.5',
        conservatory: { tests: [] },
      },
      unheard_of: 1,
      character_book: {
        entries: [
          { keys: ['/dra(gon|ke)/i', '/(?=a)b/', 'plain'], content: '@@is_user_icon x\n@@unheard\nA' },
          { keys: ['b'], content: 'B', enabled: false, extensions: { sticky: 3 } },
          { keys: ['b'], content: 'B', extensions: { sticky: 3, cooldown: 0, vectorized: false } },
        ],
      },
    })
    expect(describedOf(document)).toEqual({
      spec: 'chara_card_v3',
      greetings: 2,
      lore_entries: 3,
      regexes: 1,
      refused_regexes: ['/(?=a)b/'],
      remote_assets: 1,
      has_system_prompt: true,
      model: null,
      ignored: [
        'extensions.chub',
        'extensions.talkativeness',
        'group_only_greetings',
        'assets',
        'unheard_of',
        'character_book.entries[].@@is_user_icon',
        'character_book.entries[].@@unheard',
      ],
      never_fire: [],
      warnings: [],
    })
  })
})

describe('6.5 world books', () => {
  const world = {
    entries: {
      0: {
        uid: 0,
        key: ['tea'],
        keysecondary: ['cup'],
        selective: true,
        selectiveLogic: 0,
        content: 'TEA',
        order: 5,
        position: 0,
        disable: false,
      },
      1: { uid: 1, key: ['tea'], content: 'OFF', disable: true },
      2: { uid: 2, key: [], constant: true, content: 'ALWAYS', order: 1, position: 4, depth: 0, role: 1 },
    },
  }
  test.each([
    [
      'lorebook_v3',
      { spec: 'lorebook_v3', data: { name: 'World', entries: [{ keys: ['tea'], content: 'TEA', enabled: true }] } },
      ['TEA'],
    ],
    ['a bare book', { name: 'World', entries: [{ keys: ['tea'], content: 'TEA' }] }, ['TEA']],
    ['a SillyTavern world file', world, ['ALWAYS', 'TEA']],
  ])('6.5 %s is read', (_what, document, fired) => {
    const result = composed(cardOf({}), 'tea in a cup', { worldBooks: [keptBook(document)] })
    expect(firedIn(result)).toEqual(fired)
  })

  test('6.5 positions of a world file apply', () => {
    const result = composed(cardOf({ description: 'D' }), 'tea, cup', { worldBooks: [keptBook(world)] })
    expect(promptLines(result)).toEqual(['system: MAIN\n\nTEA\n\nD', 'user: tea, cup', 'user: ALWAYS'])
  })

  test('6.5 a document without entries is not a lorebook', () => {
    expect(() => keptBook({ name: 'x' })).toThrow(expect.objectContaining({ code: 'card_invalid' }))
  })

  test("2.2 the character's book comes before world books, which also apply to a name without a card", () => {
    const book = keptBook({ name: 'World', entries: [{ constant: true, content: 'WORLD' }] })
    expect(firedIn(composed(cardWithLore([{ constant: true }]), 'Hi', { worldBooks: [book] }))).toEqual([
      'LORE0',
      'WORLD',
    ])
    expect(firedIn(composed(null, 'Hi', { name: 'Zorro', worldBooks: [book] }))).toEqual(['WORLD'])
  })
})
