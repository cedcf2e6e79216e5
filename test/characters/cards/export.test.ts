import { deepStrictEqual } from 'node:assert'
import { inflateRawSync, inflateSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toBackfill, toVersion, withoutDecorators } from '../../../src/characters/cards/conversion.ts'
import * as exporting from '../../../src/characters/cards/export.ts'
import { type CardSource, type ExportFormat, readCardSource } from '../../../src/characters/cards/source.ts'
import { listZip } from '../../../src/characters/cards/zip.ts'
import { writeJsonDocument } from '../../../src/characters/documents/json-document.ts'
import {
  cardOfV1,
  cardOfV2,
  cardOfV3,
  documents,
  jsonBytes,
  jsonValues,
  laterFields,
  objectsOf,
} from '../../support/cards.ts'
import { cardChunk, chunksIn, png, pngChunk, zip } from '../../support/containers.ts'
import { unitsOf } from '../../support/units.ts'

const exportCard = (source: CardSource, format: ExportFormat) => exporting.exportCard(source, format).bytes
const exportLosses = (source: CardSource, format: ExportFormat) => exporting.exportCard(source, format).losses

/** The source of a document after exports into these formats, one after the other. */
function through(document: object, ...formats: readonly ExportFormat[]) {
  const bytes = writeJsonDocument({ ...document })
  return formats.reduce((source, format) => readCardSource(exportCard(source, format)), readCardSource(bytes))
}

/** The document, written as JSON and read again: it has plain objects only. */
const parsed = (document: object) => readCardSource(writeJsonDocument({ ...document })).document

const textOf = (picture: Buffer, keyword: string): unknown => {
  const chunk = chunksIn(picture).find(({ data }) => data.toString('latin1').startsWith(`${keyword}\0`))
  return JSON.parse(Buffer.from(`${chunk?.data.subarray(keyword.length + 1)}`, 'base64').toString())
}

describe('10 an unedited export is byte for byte the source', () => {
  const spaces = fc.constantFrom('', ' ', '\r\n', '\uFEFF')
  const property = (version: 'v2' | 'v3', container: (json: Buffer) => Buffer, format: ExportFormat) =>
    fc.assert(
      fc.property(documents(version), spaces, (document, space) => {
        const bytes = container(Buffer.concat([Buffer.from(space), writeJsonDocument(document)]))
        expect(exportCard(readCardSource(bytes), format).equals(bytes)).toBe(true)
      }),
    )

  test('10 V3 JSON', () => property('v3', (json) => json, 'json'))
  test('10 V2 JSON', () => property('v2', (json) => json, 'v2'))
  test('10 PNG', () =>
    property('v2', (json) => png(pngChunk('tEXt', `chara\0${json.toString('base64')}`, { checksum: 1 })), 'png'))
  test('10 CHARX', () => property('v3', (content) => zip([{ name: 'card.json', content }, { name: 'x' }]), 'charx'))
})

describe('10 into another format and back', () => {
  const roundTrip = (version: 'v2' | 'v3', ...formats: readonly ExportFormat[]) =>
    fc.assert(
      fc.property(documents(version), (document) => {
        const expected = version === 'v3' ? toVersion(parsed(document), 'v3') : parsed(document)
        deepStrictEqual(through(document, ...formats).document, expected)
      }),
      { numRuns: 200 },
    )

  test('10 JSON, PNG, JSON', () => roundTrip('v3', 'png', 'json'))
  test('10 JSON, CHARX, JSON', () => roundTrip('v3', 'charx', 'json'))
  test('10 V3, V2, V3', () => roundTrip('v3', 'v2', 'json'))
  test('10 V2, V3, V2', () => roundTrip('v2', 'json', 'v2'))
  test('10 V2, PNG, CHARX, V2', () => roundTrip('v2', 'png', 'charx', 'v2'))

  test('10 V3, the V2 copy in its picture, V3', () => {
    fc.assert(
      fc.property(documents('v3'), (document) => {
        deepStrictEqual(toVersion(parsed(toBackfill(parsed(document))), 'v3'), toVersion(parsed(document), 'v3'))
      }),
    )
  })

  test('10 a V1 card becomes the same V3 card through every format, with all of its fields in data', () => {
    fc.assert(
      fc.property(documents('v1'), (document) => {
        const { document: lifted } = through(document, 'json')
        expect(lifted).toMatchObject({ spec: 'chara_card_v3', spec_version: '3.0' })
        const entries = Object.entries(Object.getOwnPropertyDescriptor(lifted, 'data')?.value ?? {})
        const fields = new Map(entries)
        for (const [name, value] of Object.entries(parsed(document))) {
          // Required fields replace null, and a book's entries get their required fields.
          if (value !== null && name !== 'character_book') deepStrictEqual(fields.get(name), value)
        }
        deepStrictEqual(through(document, 'png', 'charx', 'json').document, lifted)
      }),
    )
  })

  test('10 a required field of V1 that is null counts as missing', () => {
    const document = { name: 'Moss', description: 'D', first_mes: 'Hello.', personality: null, other: null }
    for (const version of ['v2', 'v3'] as const) {
      expect(toVersion(document, version)['data']).toMatchObject({ name: 'Moss', personality: '', other: null })
    }
  })

  test('10 numbers that JSON.stringify would lose are kept', () => {
    const bytes = writeJsonDocument({ ...cardOfV3, numbers: [-0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY] })
    expect(Object.entries(readCardSource(bytes).document)).toContainEqual(['numbers', [-0, Infinity, -Infinity]])
  })

  test('10 a forged conversion note causes no error and pollutes no prototype', () => {
    const paths = fc.constantFrom<unknown>(
      ['spec'],
      ['data', 'extensions'],
      ['data', 'extensions', 'conservatory', 'conversion'],
      ['data', 'character_book', 'entries', 'length', 'content'],
      ['data', 'character_book', 'entries', 0, 'content'],
      ['__proto__', 'polluted'],
      ['data', 'tags', 'length'],
      [],
      'spec',
    )
    const change = fc.oneof(
      jsonValues,
      fc.record({ path: paths, before: jsonValues, after: jsonValues }, { requiredKeys: ['path'] }),
    )
    fc.assert(
      fc.property(fc.array(change), objectsOf(jsonValues), (changes, fields) => {
        const data = { ...fields, name: 'Ada', tags: [1], extensions: { conservatory: { conversion: { changes } } } }
        through({ ...cardOfV3, data }, 'v2', 'png', 'json')
        expect('polluted' in {}).toBe(false)
      }),
    )
  })
})

describe('10 conversion', () => {
  const lore = { content: '@@depth 4\r\n  @@@role user\n\n\nThe door\r\nis shut.\n@@ prose', keys: ['door'] }
  const decorated = {
    ...cardOfV3,
    data: { ...cardOfV3.data, character_book: { entries: [lore, null, { content: 'x' }] } },
  }

  test('10 V2: spec and version are set, V3 fields and unknown fields stay', () => {
    const { document } = through({ ...cardOfV3, unknown: [1] }, 'v2')
    expect(document).toMatchObject({
      spec: 'chara_card_v2',
      spec_version: '2.0',
      unknown: [1],
      data: { nickname: 'Countess' },
    })
  })

  test('2 of a V3 card: the V2 file and the V2 copy in a picture get the required fields that the card lacks', () => {
    const bare = { ...cardOfV3, data: { ...cardOfV1, character_book: { entries: [{ content: '@@end\nx' }, 1] } } }
    const entry = { content: 'x', keys: [], extensions: {}, enabled: true, insertion_order: 0 }
    const book = { extensions: {}, entries: [entry, 1] }
    const { creator_notes: _notes, ...required } = laterFields
    const whole = { ...cardOfV1, ...required, character_book: book }
    expect(through(bare, 'v2').document).toMatchObject({ data: { ...whole, creator_notes: '' } })
    const source = readCardSource(jsonBytes(bare))
    expect(textOf(exportCard(source, 'png'), 'chara')).toMatchObject({
      data: { ...whole, creator_notes: expect.stringMatching(/programs that only know V2/) },
    })
    expect(through(bare, 'v2', 'json').document).toStrictEqual(through(bare, 'charx').document)
  })

  test('7.1 decorators are stripped from V2 and restored in V3', () => {
    const { document } = through(decorated, 'v2')
    const entries = [{ ...lore, content: 'The door\r\nis shut.\n@@ prose' }, null, { content: 'x' }]
    expect(document).toMatchObject({ data: { character_book: { entries } } })
    expect(through(decorated, 'v2', 'json').document).toStrictEqual(through(decorated, 'charx').document)
  })

  test.each([
    ['plain', 'plain'],
    ['  spaced', '  spaced'],
    ['@@a', ''],
    ['@@a\n\n \n', ''],
    ['\n @@a\n@@@b 1\n text', ' text'],
    ['@@a\n\n@@b', '@@b'],
  ])('7.1 %j without decorators is %j', (content, expected) => {
    expect(withoutDecorators(content)).toBe(expected)
  })

  test('10 edits by another program in the V2 file stay', () => {
    const written = JSON.stringify(through(decorated, 'v2').document)
    const changed = JSON.parse(written.replace('"content":"The door', '"content":"The gate'))
    const { document } = through(changed, 'json')
    expect(document).toMatchObject({ spec: 'chara_card_v3', data: { extensions: cardOfV3.data.extensions } })
    expect(JSON.stringify(document)).toContain('"The gate')
  })

  test('2.3 V3 always has group_only_greetings', () => {
    expect(through(cardOfV2, 'json').document).toMatchObject({ data: { group_only_greetings: [] } })
  })

  test('1 the fields of Pygmalion are copied into the fields of V1, and are also kept', () => {
    const { document } = through({ char_name: 'Ada', char_greeting: 'Hi' }, 'json')
    expect(document).toMatchObject({ data: { name: 'Ada', first_mes: 'Hi', char_name: 'Ada', personality: '' } })
  })

  test('10 the export adds its own fields only under extensions.conservatory', () => {
    const { document } = through(cardOfV2, 'json')
    const { extensions, group_only_greetings, ...rest } = JSON.parse(JSON.stringify(document)).data
    expect(rest).toEqual({ ...cardOfV1, ...laterFields })
    expect(Object.keys(extensions)).toEqual(['a', 'conservatory'])
  })

  test('15 a file that could not be read again is not written', () => {
    const large = readCardSource(writeJsonDocument({ ...cardOfV3, x: '"'.repeat(8_388_200) }))
    expect(exportCard(large, 'png').length).toBeLessThan(30_000_000)
    const notes = Array.from({ length: 90 }, () => ({ content: `@@end\n${'x'.repeat(90_000)}` }))
    const decorated = { ...cardOfV3, data: { name: 'Ada', character_book: { entries: notes } } }
    expect(() => exportCard(readCardSource(jsonBytes(decorated)), 'v2')).toThrow('larger than')
  })
})

test('10 values of a conversion note are compared, and keys of lore are read; both cost units', () => {
  const objects = () => Array.from({ length: 5000 }, (_, index) => ({ a: { b: index } }))
  const change = { path: ['data', 'tags'], before: ['old'], after: objects() }
  const spec = { path: ['spec'], before: 'chara_card_v3', after: 'chara_card_v2' }
  const note = { conservatory: { conversion: { changes: [spec, change, { path: ['data', 'x'.repeat(10_001)] }] } } }
  const noted = { spec: 'chara_card_v2', data: { name: 'Moss', tags: objects(), extensions: note } }
  expect(toVersion(noted, 'v3')['data']).toMatchObject({ tags: ['old'] })
  expect(unitsOf(() => toVersion(noted, 'v3'))).toBeGreaterThan(1_000_000)
  const keys = Array.from({ length: 5000 }, (_, index) => `/${index}`)
  const withLore = (more: readonly string[]) => {
    const entries = [{ keys: [...keys, ...more], content: 'x' }]
    return JSON.stringify(
      toVersion({ spec: 'chara_card_v2', data: { name: 'Moss', character_book: { entries } } }, 'v3'),
    )
  }
  expect(unitsOf(() => withLore([]))).toBeGreaterThan(300_000)
  expect(withLore(['/a/'])).toContain('"use_regex":true')
  expect(withLore([`${' '.repeat(10_000)}/a/`])).toContain('"use_regex":false')
})

describe('8 writing PNG', () => {
  const comment = pngChunk('tEXt', 'Comment\0kept')
  const old = [
    cardChunk('chara', cardOfV2),
    pngChunk('zTXt', 'CCV3\0\0x'),
    pngChunk('iTXt', 'Chara\0x'),
    cardChunk('ccv3', cardOfV3),
  ]
  const picture = png(
    ...old,
    comment,
    pngChunk('tEXt', 'chara-ext-asset_:1\0QQ=='),
    pngChunk('juNk', 'x', { checksum: 9 }),
  )
  const notes = 'Made for tests.'
  const assets = [{ type: 'icon', uri: 'embeded://main.png', name: 'main', ext: 'png' }]
  const card = { ...cardOfV3, data: { ...cardOfV3.data, creator_notes: notes, assets } }
  const archive = zip([
    { name: 'card.json', content: jsonBytes(card) },
    { name: 'main.png', content: picture },
  ])
  const written = exportCard(readCardSource(archive), 'png')

  test('8 old cards are removed, other chunks stay, new cards come before IEND, checksums are new', () => {
    const chunks = chunksIn(written)
    expect(chunks.map(({ type, data }) => `${type} ${data.toString('latin1', 0, 8)}`.replace(/\0.*/s, ''))).toEqual([
      ...['IHDR ', expect.stringContaining('IDAT'), 'tEXt Comment', 'tEXt chara-ex', 'juNk x'],
      ...['tEXt ccv3', 'tEXt chara', 'IEND '],
    ])
    expect(chunks.every(({ isSound }) => isSound)).toBe(true)
  })

  test('8 ccv3 is the V3 object in base64', () => {
    const shown = [{ ...assets[0], uri: 'ccdefault:' }]
    expect(textOf(written, 'ccv3')).toEqual({ ...card, data: { ...card.data, assets: shown } })
  })

  test('8 chara is V2, with a warning in its notes and without decorators', () => {
    const entries = [{ content: '@@depth 0\nLore' }]
    const source = readCardSource(jsonBytes({ ...card, data: { ...card.data, character_book: { entries } } }))
    expect(textOf(exportCard(source, 'png'), 'chara')).toMatchObject({
      spec: 'chara_card_v2',
      data: {
        creator_notes: expect.stringMatching(/Character Card V3[\s\S]*Made for tests\.$/),
        character_book: { entries: [{ content: 'Lore' }] },
      },
    })
  })

  test('8 a card without a picture gets a valid plain picture', () => {
    const chunks = chunksIn(exportCard(readCardSource(jsonBytes(cardOfV3)), 'png'))
    expect(chunks.map(({ type }) => type)).toEqual(['IHDR', 'IDAT', 'tEXt', 'tEXt', 'IEND'])
    expect(chunks[0]?.data.toString('hex')).toBe('00000100000001800800000000')
    expect(inflateSync(chunks[1]?.data ?? '')).toHaveLength(384 * 257)
  })
})

describe('9 writing CHARX', () => {
  const icon = Buffer.from('a picture')
  const members = [
    { name: 'module.risum', content: 'x', flags: 8, method: 0 },
    { name: 'card.json', content: jsonBytes(cardOfV3) },
    { name: 'assets/icon/images/main.png', content: icon },
  ]

  test('9 card.json is at the root', () => {
    const [entry, ...others] = listZip(exportCard(readCardSource(jsonBytes(cardOfV3)), 'charx'))
    expect(entry?.name).toBe('card.json')
    expect(others).toEqual([])
  })

  test('15 a card that would pack like a bomb is stored unpacked, so that it can be read', () => {
    const card = { ...cardOfV3, filler: ' '.repeat(100_000) }
    expect(through(card, 'charx').document).toEqual(card)
  })

  test('9 parts that a format cannot contain are reported', () => {
    const charx = readCardSource(zip(members))
    expect(exportLosses(charx, 'json')).toEqual([expect.stringContaining('2')])
    expect(exportLosses(charx, 'charx')).toEqual([])
    expect(exportLosses(readCardSource(png(cardChunk('ccv3', cardOfV3))), 'v2')).toEqual([
      expect.stringContaining('picture'),
    ])
    expect(exportLosses(readCardSource(jsonBytes(cardOfV3)), 'png')).toEqual([])
  })
})

test('a card that is packed in several pieces unpacks to the same bytes', () => {
  const text = Array.from({ length: 120_000 }, (_, index) => (index * 7919).toString(36)).join(' ')
  const source = readCardSource(writeJsonDocument({ ...cardOfV3, data: { ...cardOfV3.data, description: text } }))
  const file = exportCard(source, 'charx')
  expect(file.length).toBeLessThan(text.length)
  expect(inflateRawSync(listZip(file)[0]?.packed ?? file)).toEqual(source.bytes)
  expect(readCardSource(file).document).toEqual(source.document)
})

test('a conversion does not change its input', () => {
  const document = parsed({
    ...cardOfV3,
    data: { ...cardOfV3.data, character_book: { entries: [{ keys: ['a'], content: '@@depth 4\nA' }] } },
  })
  const before = structuredClone(document)
  deepStrictEqual(toVersion(toVersion(document, 'v2'), 'v3'), toVersion(before, 'v3'))
  toBackfill(document)
  deepStrictEqual(document, before)
})

describe('10 V3 has all required fields', () => {
  const lore = (fields: object) => ({ ...cardOfV2, data: { ...cardOfV2.data, character_book: { entries: [fields] } } })

  test.each<[object, object]>([
    [{ keys: ['a'] }, { use_regex: false, enabled: true, insertion_order: 0, content: '', extensions: {} }],
    [
      { keys: ['/a/i'], enabled: false },
      { use_regex: true, enabled: false },
    ],
    [{ keys: ['a'], secondary_keys: ['/b/'] }, { use_regex: true }],
    [{ keys: ['a'], content: '@@additional_keys b, /c/\nx' }, { use_regex: true }],
    [{ keys: ['a'], content: '@@depth 1\n@@exclude_keys /c/\nx' }, { use_regex: true }],
    [{ keys: ['/a/'], use_regex: false }, { use_regex: false }],
    [
      { keys: null, content: 'x' },
      { keys: [], content: 'x' },
    ],
  ])('10 a lore entry gets the required fields of V3, and loses them again in V2: %j', (entry, expected) => {
    const { document } = through(lore(entry), 'json')
    expect(document).toMatchObject({ data: { character_book: { extensions: {}, entries: [expected] } } })
    expect(through(lore(entry), 'json', 'v2').document).toEqual(lore(entry))
  })

  test.each(['json', 'png', 'charx'] as const)('10 a card of any version has all texts and lists as %s', (format) => {
    for (const card of [cardOfV1, cardOfV2, { ...cardOfV3, data: { name: 'Ada', tags: null } }]) {
      const data = Object.getOwnPropertyDescriptor(
        readCardSource(exportCard(readCardSource(jsonBytes({ ...card, x: 1 })), format)).document,
        'data',
      )?.value
      if (format === 'json' && 'spec' in card && card.spec === 'chara_card_v3') continue
      for (const name of [
        'description',
        'personality',
        'scenario',
        'first_mes',
        'mes_example',
        'creator_notes',
        'system_prompt',
        'post_history_instructions',
        'creator',
        'character_version',
      ]) {
        expect([name, typeof data[name]]).toEqual([name, 'string'])
      }
      for (const name of ['alternate_greetings', 'group_only_greetings', 'tags'])
        expect([name, Array.isArray(data[name])]).toEqual([name, true])
    }
  })
})
