import { describe, expect, test } from 'vitest'
import { Assets } from '../../../src/characters/cards/assets.ts'
import * as exporting from '../../../src/characters/cards/export.ts'
import { type CardSource, type ExportFormat, readCardSource } from '../../../src/characters/cards/source.ts'
import { listZip, unzip } from '../../../src/characters/cards/zip.ts'
import { cardOfV3, jsonBytes } from '../../support/cards.ts'
import { cardChunk, chunksIn, png, pngChunk, zip } from '../../support/containers.ts'
import { unitsOf } from '../../support/units.ts'

const exportCard = (source: CardSource, format: ExportFormat) => exporting.exportCard(source, format).bytes
const exportLosses = (source: CardSource, format: ExportFormat) => exporting.exportCard(source, format).losses

describe('9 assets in exports', () => {
  const data = Buffer.from('sound')
  const own = png(pngChunk('tEXt', 'Comment\0kept'))
  const jpeg = Buffer.from('ffd8ffe000040000ffc0001108002000400301220002110103110100000000000000', 'hex')
  const asset = (uri: string, more: object = {}) => ({ type: 'icon', name: 'main', ext: 'png', uri, ...more })
  const sound = asset('embeded://s.mp3', { type: 'x_sound', name: 'bell', ext: 'mp3' })
  const dead = asset('embeded://gone.png', { type: 'emotion', name: 'sad' })
  const card = (assets: readonly object[]) => ({ ...cardOfV3, data: { ...cardOfV3.data, assets } })
  const archive = (icon: Buffer, ...assets: readonly object[]) =>
    readCardSource(
      zip([
        { name: 'card.json', content: jsonBytes(card(assets)) },
        { name: 'i.png', content: icon },
        { name: 's.mp3', content: data },
      ]),
    )
  const assetsOf = (source: CardSource) => Object.getOwnPropertyDescriptor(source.document['data'], 'assets')?.value

  test('9 an archive becomes a picture: its main icon, and the other files as data URLs', () => {
    const source = archive(
      own,
      asset('embeded://i.png'),
      sound,
      dead,
      asset('https://x.example/a.png', { name: 'far' }),
    )
    const { bytes, losses } = exporting.exportCard(source, 'png')
    expect(chunksIn(bytes).map(({ type, data: each }) => `${type} ${each.toString('latin1', 0, 5)}`)).toEqual([
      ...chunksIn(own)
        .slice(0, -1)
        .map(({ type, data: each }) => `${type} ${each.toString('latin1', 0, 5)}`),
      ...['tEXt ccv3\0', 'tEXt chara', 'IEND '],
    ])
    expect(assetsOf(readCardSource(bytes))).toEqual([
      asset('ccdefault:'),
      { ...sound, uri: `data:application/octet-stream;base64,${data.toString('base64')}` },
      { ...dead, uri: 'ccdefault:' },
      asset('https://x.example/a.png', { name: 'far' }),
    ])
    expect(losses).toEqual(['Assets whose files are missing or do not fit into this format: 1.'])
  })

  test.each([
    ['JPEG', jpeg],
    ['damaged PNG', own.subarray(0, 50)],
  ])('9 a main icon that is a %s becomes a data URL, and the picture is plain, which is reported', (_kind, icon) => {
    const { bytes, losses } = exporting.exportCard(archive(icon, asset('embeded://i.png'), sound), 'png')
    expect(losses).toEqual(['The main icon is not an intact PNG, so the picture is a plain grey one.'])
    expect(JSON.stringify(assetsOf(readCardSource(bytes)))).toContain(`base64,${icon.toString('base64')}`)
  })

  test('9 an archive becomes JSON with its files as data URLs, and V2 without them', () => {
    const source = archive(own, asset('embeded://i.png'), sound)
    expect(exportLosses(source, 'json')).toEqual([])
    expect(JSON.stringify(assetsOf(readCardSource(exportCard(source, 'json'))))).toContain(
      `data:image/png;base64,${own.toString('base64')}`,
    )
    expect(exportLosses(source, 'v2')).toEqual(['Files of the archive that are not in this format: 2.'])
    expect(assetsOf(readCardSource(exportCard(source, 'v2')))).toEqual([
      asset('ccdefault:'),
      { ...sound, uri: 'ccdefault:' },
    ])
  })

  test('15 a file that is too large for a data URL is left out, which is reported; smaller files are exported', () => {
    const large = Buffer.alloc(7_000_000, 'ab1')
    const files = [{ name: 'card.json', content: jsonBytes(card([asset('embeded://big'), sound])) }]
    const source = readCardSource(
      zip([...files, { name: 'big', content: large, method: 0 }, { name: 's.mp3', content: data }]),
    )
    const { bytes, losses } = exporting.exportCard(source, 'json')
    expect(bytes.length).toBeLessThan(10_000)
    expect(losses).toEqual(['Files of the archive that are not in this format: 1.'])
    expect(JSON.stringify(assetsOf(readCardSource(bytes)))).toContain(data.toString('base64'))
  })

  test('15 a file whose name has more than 1,000 bytes is no asset, which is reported', () => {
    const names = [`${'é'.repeat(498)}.png`, `${'é'.repeat(498)}1.png`]
    const content = jsonBytes(card(names.map((name) => asset(`embeded://${name}`))))
    const source = readCardSource(
      zip([{ name: 'card.json', content }, ...names.map((name) => ({ name, content: data }))]),
    )
    const { bytes, losses } = exporting.exportCard(source, 'json')
    expect(assetsOf(readCardSource(bytes))).toEqual([
      asset(`data:application/octet-stream;base64,${data.toString('base64')}`),
      asset('ccdefault:'),
    ])
    expect(losses).toEqual([
      'Files of the archive that are not in this format: 1.',
      'Assets whose files are missing or do not fit into this format: 1.',
    ])
  })

  test('9 a file that several assets name is one file in an archive, and counts once in the losses', () => {
    const named = [asset('__asset:7'), asset('__asset:7', { name: 'again' })]
    const chunk = pngChunk('tEXt', `chara-ext-asset_:7\0${data.toString('base64')}`)
    const archived = exporting.exportCard(readCardSource(png(chunk, cardChunk('ccv3', card(named)))), 'charx').bytes
    expect(listZip(archived).filter(({ name }) => name.startsWith('assets/icon/other/'))).toHaveLength(1)
    expect(exportLosses(archive(own, sound, { ...sound, name: 'again' }), 'json')).toEqual([
      'Files of the archive that are not in this format: 1.',
    ])
  })

  test('9 if a file fits only once, a second asset that names it is reported', () => {
    const large = Buffer.alloc(4_000_000, 'ab1')
    const assets = [asset('embeded://big'), asset('embeded://big', { name: 'again' })]
    const source = readCardSource(
      zip([
        { name: 'card.json', content: jsonBytes(card(assets)) },
        { name: 'big', content: large, method: 0 },
      ]),
    )
    expect(exportLosses(source, 'json')).toEqual(['Assets whose files are missing or do not fit into this format: 1.'])
  })

  test('15 the work for assets that name a file with a false size is never negative', () => {
    const content = jsonBytes(card(Array.from({ length: 50 }, () => asset('embeded://false'))))
    const source = readCardSource(
      zip([
        { name: 'card.json', content },
        { name: 'false', content: data, size: 2 ** 31 },
      ]),
    )
    expect(unitsOf(() => exportCard(source, 'json'))).toBeGreaterThan(0)
    expect(unitsOf(() => exportCard(source, 'json'))).toBeLessThan(1_000_000)
  })

  test('9 a picture with 1,500 small assets is exported', () => {
    const assets = Array.from({ length: 1500 }, (_, index) => asset(`__asset:${index}`))
    const chunks = assets.map((_asset, index) => pngChunk('tEXt', `chara-ext-asset_:${index}\0${'YQ=='}`))
    const source = readCardSource(png(...chunks, cardChunk('ccv3', card(assets))))
    expect(exportLosses(source, 'charx')).toEqual([])
  })

  test('15 an archive with more files than can be read is refused', () => {
    const assets = Array.from({ length: 4001 }, (_, index) => asset(`__asset:${index}`))
    const chunks = assets.map((_asset, index) => pngChunk('tEXt', `chara-ext-asset_:${index}\0${'YQ=='}`))
    const source = readCardSource(png(...chunks, cardChunk('ccv3', card(assets))))
    expect(() => exportCard(source, 'charx')).toThrow('more than 4000 files')
  })

  test.each<[string, object | undefined, readonly object[]]>([
    ['lists no assets', undefined, [asset('embeded://assets/icon/images/main.png')]],
    ['lists the picture as its icon', [asset('ccdefault:')], [asset('embeded://assets/icon/images/main.png')]],
    [
      'has another main icon',
      [asset('__asset:7')],
      [asset('embeded://assets/icon/other/0.png'), asset('embeded://assets/icon/images/main.png', { name: 'picture' })],
    ],
  ])('9 the picture of a PNG becomes an icon in an archive if the card %s', (_what, assets, expected) => {
    const written = { ...cardOfV3, data: { ...cardOfV3.data, ...(assets ? { assets } : {}) } }
    const chunk = pngChunk('tEXt', `chara-ext-asset_:7\0${data.toString('base64')}`)
    const source = readCardSource(png(pngChunk('tEXt', 'Comment\0kept'), chunk, cardChunk('ccv3', written)))
    const { bytes, losses } = exporting.exportCard(source, 'charx')
    expect(losses).toEqual([])
    expect(assetsOf(readCardSource(bytes))).toEqual(expected)
    const main = listZip(bytes).find(({ name }) => name === 'assets/icon/images/main.png')
    expect(main && unzip(main, 10_000).equals(own)).toBe(true)
    const back = exporting.exportCard(readCardSource(bytes), 'png').bytes
    if (assets === undefined) expect(chunksIn(back).slice(0, 3)).toEqual(chunksIn(own).slice(0, 3))
  })

  test('9 the plain picture of a card without a picture is not exported as an asset', () => {
    const source = readCardSource(exportCard(readCardSource(jsonBytes(cardOfV3)), 'png'))
    expect(listZip(exportCard(source, 'charx')).map(({ name }) => name)).toEqual(['card.json'])
  })

  test('9 a data URL is decoded, with line breaks or without', () => {
    const bytes = Buffer.from(Array.from({ length: 3_000_000 }, (_, index) => (index * 7919) % 251))
    const digits = bytes.toString('base64')
    for (const written of [digits, digits.replace(/.{76}/g, '$&\r\n'), ` ${digits}`]) {
      const source = readCardSource(jsonBytes(card([asset(`data:image/png;base64,${written}`)])))
      expect(new Assets(source).mainIcon()?.bytes?.equals(bytes)).toBe(true)
    }
  })

  test('9 URIs in a JSON card that point to nothing are replaced by valid URIs', () => {
    const source = readCardSource(jsonBytes(card([dead, sound])))
    expect(exporting.exportCard(source, 'charx').losses).toEqual([
      'Assets whose files are missing or do not fit into this format: 2.',
    ])
    expect(JSON.stringify(assetsOf(readCardSource(exportCard(source, 'png'))))).not.toContain('embeded:')
  })
})
