import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { avatarOf } from '../../src/characters/cards/avatar.ts'
import { exportCard } from '../../src/characters/cards/export.ts'
import { readCardSource } from '../../src/characters/cards/source.ts'
import { readCardBytes } from '../../src/characters/library/jobs.ts'
import { type Fields, isFields, listIn, textIn } from '../../src/fields.ts'
import { icon, joy, type SourceFile, sources, whole1, whole2, whole3 } from '../support/card-readers/cards.ts'
import { expectedView, viewOf } from '../support/card-readers/expected.ts'
import { type CardReaders, dataOf, type Format, installCardReaders } from '../support/card-readers/readers.ts'
import { jsonBytes } from '../support/cards.ts'

/*
 * Three card readers of other authors are installed from npm into a temporary folder: RisuAI's ccardlib, character-card-utils by
 * the author of V2, and Character Foundry. They read the service's exports, and the service reads their output. ccardlib and
 * character-card-utils read only JSON, which other packages extract from pictures and archives. Needs the npm registry.
 */

let readers: CardReaders

beforeAll(async () => {
  readers = await installCardReaders()
})

afterAll(() => readers?.remove())

type Case = readonly [name: string, format: Format, source: SourceFile, exported: Buffer]
const formats: readonly Format[] = ['json', 'v2', 'png', 'charx']
const cases: readonly Case[] = Object.entries(sources).flatMap(([name, source]) =>
  formats.map((format) => [name, format, source, exportCard(readCardSource(source.bytes), format).bytes] as const),
)
/** Cases whose export differs from the source. An export in the source's own format is the source file, which may lack fields. */
const converted = cases.filter(([, , source, exported]) => !source.bytes.equals(exported))

/** Removes fields that a reader adds: only fields that are expected remain. */
function withoutAdditions(read: Fields, expected: Fields): Fields {
  return Object.fromEntries(Object.entries(read).filter(([name]) => Object.hasOwn(expected, name)))
}

function inlined(asset: Fields): readonly [name: string, bytes: Buffer] {
  const [, base64 = ''] = textIn(asset, 'uri').split(';base64,')
  return [textIn(asset, 'name'), Buffer.from(base64, 'base64')]
}

describe('an export has every field unchanged', () => {
  test.each(converted)('%s as %s, extracted by other packages', (_name, format, source, bytes) => {
    const data = dataOf(readers.unpack(bytes, format))
    expect(viewOf(data, format)).toEqual(expectedView({ ...source.card }, format))
  })

  // Foundry adds fields that V2 entries lack, and group greetings in a picture of a V2 card. These additions are removed.
  test.each(cases)('%s as %s, by Character Foundry', (_name, format, source, bytes) => {
    const { card } = readers.foundry.parseCard(new Uint8Array(bytes))
    const isOld = source.bytes.equals(bytes)
    const expected = isOld ? viewOf(dataOf({ ...source.card }), format) : expectedView({ ...source.card }, format)
    const { fields, entries, ...rest } = viewOf(card.data, format)
    expect({
      ...rest,
      fields: withoutAdditions(fields, expected.fields),
      entries: entries.map((entry, index) => withoutAdditions(entry, expected.entries[index] ?? {})),
    }).toEqual(expected)
  })

  test.each(cases.filter(([, format, { picturesIn }]) => picturesIn.includes(format)))(
    'the pictures of %s as %s, by Character Foundry',
    (_name, _format, { pictures }, bytes) => {
      const { card, assets } = readers.foundry.parseCard(new Uint8Array(bytes))
      // Foundry does not list pictures in data: URLs, which V3 allows. These pictures are taken from the card itself.
      const linked = listIn(card.data, 'assets').filter(isFields).map(inlined)
      const listed = assets.map(({ name, data }) => [name, Buffer.from(data)])
      expect(Object.fromEntries([...linked, ...listed])).toMatchObject(pictures)
    },
  )

  // The library's function `check` deletes null values from its argument, so `check` gets a copy.
  test.each(converted)('%s as %s, by ccardlib', (_name, format, source, bytes) => {
    const document = readers.unpack(bytes, format)
    const from = format === 'v2' ? 'v2' : 'v3'
    expect(readers.risu.character.check(structuredClone(document))).toBe(from)
    // The library removes decorators when it converts to V2, as the service does. So the two conversions must agree.
    const theirs = readers.risu.character.convert(document, { from, to: 'v2' })
    expect(viewOf(theirs.data, 'v2')).toEqual(expectedView({ ...source.card }, 'v2'))
  })

  test.each(converted.filter(([, format]) => format === 'v2' || format === 'png'))(
    '%s as %s, by character-card-utils',
    (_name, format, source, bytes) => {
      const { data } = readers.cardUtils.parseToV2(readers.unpack(bytes, format, 'chara'))
      const expected = expectedView({ ...source.card }, 'v2')
      const notes = expect.stringMatching(new RegExp(`${textIn(expected.fields, 'creator_notes')}$`))
      // A PNG has the card as V3, and a copy as V2. The export writes a warning before `creator_notes` of the V2 copy.
      const fields = format === 'png' ? { ...expected.fields, creator_notes: notes } : expected.fields
      expect(viewOf(data, 'v2')).toEqual({ ...expected, fields })
    },
  )
})

describe('the service reads files that other programs write:', () => {
  const assets = [
    { name: 'main', type: 'icon', ext: 'png', data: icon, isMain: true },
    { name: 'joy', type: 'emotion', ext: 'png', data: joy },
  ]

  test.each(['png', 'charx'] as const)('Character Foundry, %s', (format) => {
    const { buffer } = readers.foundry.exportCard(structuredClone(whole3), assets, { format })
    const read = readCardBytes(Buffer.from(buffer))
    expect(viewOf(dataOf(read.source.document), format)).toEqual(expectedView(whole3, format))
    expect(read.source.warnings).toEqual([])
    expect(avatarOf(read.source).bytes).toEqual(icon)
    expect(read.card.book?.entries.length).toBe(2)
  })

  // For a V1 card, ccardlib sets the creator and the version to "Unknown". To a V3 card, ccardlib adds empty fields and dates of 0.
  test('ccardlib, V1 and V2 as V3, and V3 as V2', () => {
    const { convert } = readers.risu.character
    const readBack = (theirs: Fields) => dataOf(readCardBytes(jsonBytes(theirs)).source.document)
    expect(readBack(convert(structuredClone(whole1), { to: 'v3' }))).toMatchObject(whole1)
    const lifted = viewOf(readBack(convert(structuredClone(whole2), { to: 'v3' })), 'json')
    expect(lifted).toMatchObject({ ...expectedView(whole2, 'json') })
    const lowered = readBack(convert(structuredClone(whole3), { to: 'v2' }))
    expect(viewOf(lowered, 'v2')).toEqual(expectedView(whole3, 'v2'))
  })

  test('character-card-utils, V1 as V2, and V2 with the fields of V1 beside it', () => {
    const { v1ToV2, backfillV2 } = readers.cardUtils
    const lifted = readCardBytes(jsonBytes(v1ToV2(structuredClone(whole1))))
    expect(viewOf(dataOf(lifted.source.document), 'v2').fields).toMatchObject(whole1)
    const both = readCardBytes(jsonBytes(backfillV2(structuredClone(whole2))))
    expect(viewOf(dataOf(both.source.document), 'v2')).toEqual(expectedView(whole2, 'v2'))
    expect(both.card.name).toBe(whole1.name)
  })
})
