import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { maxFileBytes, readCardSource } from '../../../src/characters/cards/source.ts'
import { nameOf, readCardBytes } from '../../../src/characters/library/jobs.ts'
import { cardOfV1, cardOfV2, cardOfV3, jsonBytes, outcome, refusal } from '../../support/cards.ts'
import { cardChunk, png, zip } from '../../support/containers.ts'

const v3 = jsonBytes(cardOfV3)

describe('1 detection by content', () => {
  test.each([
    ['JSON', v3, 'json'],
    ['JSON after a byte order mark and white space', Buffer.concat([Buffer.from('\uFEFF \r\n\t'), v3]), 'json'],
    ['PNG', png(cardChunk('ccv3', cardOfV3)), 'png'],
    ['CHARX', zip([{ name: 'card.json', content: v3 }]), 'charx'],
    [
      'CHARX after a JPEG',
      Buffer.concat([Buffer.from('ffd8ffe0', 'hex'), zip([{ name: 'card.json', content: v3 }])]),
      'charx',
    ],
  ])('1 %s is recognised', (_name, bytes, container) => {
    const source = readCardSource(bytes)
    expect(source).toMatchObject({ container, warnings: [] })
    expect(source.document).toEqual(cardOfV3)
    expect(source.bytes).toBe(bytes)
  })

  test.each([
    ['WEBP', Buffer.from('RIFF\0\0\0\0WEBPVP8 '), 'WEBP'],
    ['JPEG', Buffer.from('ffd8ffe000104a464946', 'hex'), 'JPEG'],
    ['GIF', Buffer.from('GIF89a'), 'GIF'],
    ['UTF-16', Buffer.from('\uFEFF{}', 'utf16le'), 'UTF-16'],
  ])('1 %s is refused, and the message names the format', (_name, bytes, word) => {
    expect(refusal(bytes)).toMatchObject({
      code: 'card_unsupported',
      status: 400,
      message: expect.stringContaining(word),
    })
  })

  test.each(['', 'hello', '\0\0\0', 'RIFF', '\uFEFF', '   '])('1 %j is not a card', (text) => {
    expect(outcome(Buffer.from(text))).toBe('card_invalid')
  })
})

describe('1 card versions', () => {
  test.each([
    ['V1', cardOfV1],
    ['V1 with only a name and a description', { name: 'Ada', description: 'd' }],
    ['V1 with an empty name', { ...cardOfV1, name: '' }],
    ['V1 fields beside a spec', { spec: 'chara_card_v2', ...cardOfV1 }],
    ['Pygmalion names', { char_name: 'Ada', char_persona: 'd' }],
    ['V2', cardOfV2],
    ['V3', cardOfV3],
    ['V3 with another spec_version', { ...cardOfV3, spec_version: 2 }],
  ])('1 %s is a card', (_name, card) => {
    expect(readCardSource(jsonBytes(card))).toMatchObject({ document: card, warnings: [] })
  })

  test('1 an unknown spec with a name in data is read as V3, with a warning', () => {
    const { warnings } = readCardSource(jsonBytes({ spec: 'chara_card_v9', data: { name: 'Ada' } }))
    expect(warnings).toEqual([expect.stringContaining('read as V3')])
  })

  test.each([3.1, '3.5', '4.0-beta'])('1 a later version, %j, is read, with a warning', (spec_version) => {
    const { warnings } = readCardSource(jsonBytes({ ...cardOfV3, spec_version }))
    expect(warnings).toEqual([expect.stringContaining('later specification')])
  })

  test.each([
    ['no card', {}],
    ['inherited names', { ['__proto__']: cardOfV1 }],
    ['a lorebook', { spec: 'lorebook_v3', data: { name: 'Places', entries: [] } }],
    ['a world file', { name: 'Places', entries: {} }],
    ['data without a name', { spec: 'x', data: {} }],
  ])('1 %s is refused', (_name, document) => {
    expect(outcome(jsonBytes(document))).toBe('card_invalid')
  })
})

describe('8 JSON files', () => {
  test('8 a file with CRLF line breaks is accepted, and CRLF in a text is kept', () => {
    const bytes = Buffer.from('{\r\n"name": "Ada",\r\n"first_mes": "a\\r\\nb"\r\n}\r\n')
    expect(readCardSource(bytes).document).toEqual({ name: 'Ada', first_mes: 'a\r\nb' })
  })

  test.each([
    '{"name":"Ada"} x',
    '{"name":"Ada"}{}',
    '[{"name":"Ada"}]',
    '"name"',
    '{"name":"Ada"',
    '{"name":"Ada"}\0',
  ])('8 %j is refused', (text) => {
    expect(outcome(Buffer.from(text))).toBe('card_invalid')
  })

  test('11 a refusal names the line and the column, and quotes nothing of the file', () => {
    const error = refusal(Buffer.from('{\n"name": "SECRET", oops SECRET}'))
    expect(error?.message).toBe('The card is not valid JSON (line 2, column 19). Correct it.')
    expect(error?.cause).toBeUndefined()
  })

  test('11 a refusal names the line and the column in a long file, whose lines are counted in steps', () => {
    const placeOf = (text: string) => / \((line .*)\)/.exec(refusal(Buffer.from(text))?.message ?? '')?.[1]
    const list = `{"a":[${'0,\n'.repeat(90_000)}`
    expect(placeOf(`${list}  oops`)).toBe('line 90001, column 3')
    expect(placeOf(`${list}{"${'n'.repeat(300_000)}":0`)).toBe('line 90001, column 2')
  })

  test('11 broken UTF-8 is refused', () => {
    const error = refusal(Buffer.concat([Buffer.from('{"name":"'), Buffer.from([0xff]), Buffer.from('"}')]))
    expect(error).toMatchObject({ code: 'card_invalid', message: expect.stringContaining('UTF-8') })
  })
})

test('15 of a long spec_version, the first 100 characters are read', () => {
  const warningsOf = (spec_version: string) => readCardSource(jsonBytes({ ...cardOfV3, spec_version })).warnings
  expect(warningsOf(`${'0'.repeat(99)}4`)).toHaveLength(1)
  expect(warningsOf(`${'0'.repeat(100)}4`)).toStrictEqual([])
})

test('15 a name is trimmed, and refused if it has more than 10,000 characters with its blanks', () => {
  const nameIn = (name: string) => nameOf(readCardBytes(jsonBytes({ ...cardOfV3, data: { name } })))
  expect(nameIn(` Moss${' '.repeat(9000)}`)).toBe('Moss')
  expect(() => nameIn(`Moss${' '.repeat(20_000)}`)).toThrow('more than 10000 characters')
  expect(() => nameIn('a'.repeat(20_000))).toThrow('longer than 200 characters')
  expect(() => nameIn('a'.repeat(1500))).toThrow('longer than 200 characters')
})

describe('15 JSON', () => {
  test('15 nesting of 200 levels is read, and deeper nesting is refused', () => {
    const nested = (depth: number) =>
      Buffer.from(`{"name":"Ada","description":"","x":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`)
    expect(outcome(nested(200))).toBe('taken')
    expect(outcome(nested(201))).toBe('card_invalid')
    expect(refusal(nested(60_000))?.message).toContain('nested deeper than 200')
    expect(outcome(Buffer.from(`{"name":${'{"a":'.repeat(3_000_000)}`))).toBe('card_invalid')
  })

  test('15 brackets in texts do not count as nesting', () => {
    expect(outcome(jsonBytes({ description: '', name: `${'['.repeat(500)}"\\"${'{'.repeat(500)}` }))).toBe('taken')
  })

  test('15 __proto__ and constructor are own properties and pollute nothing', () => {
    const text = '{"name":"Ada","description":"","__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'
    const { document } = readCardSource(Buffer.from(text))
    expect(Object.keys(document)).toEqual(['name', 'description', '__proto__', 'constructor'])
    expect('polluted' in {}).toBe(false)
  })

  test('15 files and documents that are too large get a 413', () => {
    expect(refusal(Buffer.alloc(maxFileBytes + 1, '{'))).toMatchObject({ code: 'card_too_large', status: 413 })
    expect(refusal(Buffer.alloc(16 * 1024 * 1024 + 1, '{'))).toMatchObject({ code: 'card_too_large', status: 413 })
  })

  test('15 any bytes give a source or a CardError', () => {
    const starts = fc.constantFrom('', '{', '\x89PNG\r\n\x1a\n', 'PK\x03\x04', 'RIFF', '[', '\xef\xbb\xbf')
    fc.assert(
      fc.property(starts, fc.uint8Array({ maxLength: 60 }), (start, rest) => {
        outcome(Buffer.concat([Buffer.from(start, 'latin1'), rest]))
      }),
      { numRuns: 500 },
    )
  })
})
