import { deflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readCardSource } from '../../../src/characters/cards/source.ts'
import { listZip, unzip } from '../../../src/characters/cards/zip.ts'
import { cardOfV2, cardOfV3, jsonBytes, outcome, refusal } from '../../support/cards.ts'
import { type ZipMember, zip } from '../../support/containers.ts'

const card: ZipMember = { name: 'card.json', content: jsonBytes(cardOfV3) }
const icon: ZipMember = { name: 'assets/icon/images/main.png', content: 'a picture' }

describe('9 CHARX', () => {
  test.each([
    ['deflated', zip([card, icon])],
    ['stored', zip([{ ...card, method: 0 }])],
    [
      'after other bytes, which its offsets include',
      Buffer.concat([Buffer.from('MZ stub'), zip([card], { shift: 7 })]),
    ],
    ['after other bytes, which its offsets do not include', Buffer.concat([Buffer.from('MZ stub'), zip([icon, card])])],
  ])('9 the card is read: %s', (_name, bytes) => {
    expect(readCardSource(bytes).document).toEqual(cardOfV3)
  })

  test('9 a V2 card inside is accepted', () => {
    expect(readCardSource(zip([{ ...card, content: jsonBytes(cardOfV2) }])).document).toEqual(cardOfV2)
  })

  test.each([
    'discard.json',
    'backup/card.json',
    'Card.json',
    './card.json',
    '/card.json',
    '../card.json',
    'card.json\0',
  ])('9 %j is not the card', (name) => {
    expect(outcome(zip([{ ...card, name }]))).toBe('card_invalid')
    expect(readCardSource(zip([{ name, content: '{"name":"Wrong"}' }, card])).document).toEqual(cardOfV3)
  })

  test('9 other files are not read, and never cause a refusal', () => {
    const others: ZipMember[] = [
      { name: 'module.json', content: '{"name":"Wrong"}' },
      { name: 'assets/broken.bin', packed: Buffer.from('no deflate'), size: 1e9 },
      { name: 'assets/odd.bin', content: 'x', method: 99, flags: 1 },
      { name: 'assets/named.bin', localName: 'assets/other.bin' },
    ]
    expect(readCardSource(zip([...others, card])).document).toEqual(cardOfV3)
  })

  test.each([
    ['encrypted', { ...card, flags: 1 }, 'card_unsupported'],
    ['strongly encrypted', { ...card, flags: 0x40 }, 'card_unsupported'],
    ['of an unknown method', { ...card, method: 14, packed: Buffer.from('lzma') }, 'card_unsupported'],
    ['no deflate', { ...card, packed: Buffer.from('\xff\xff', 'latin1') }, 'card_damaged'],
    ['cut off', { ...card, packed: deflateRawSync(jsonBytes(cardOfV3)).subarray(0, 40) }, 'card_damaged'],
    ['of another checksum', { ...card, checksum: 1 }, 'card_damaged'],
    ['of another length', { ...card, size: 5 }, 'card_damaged'],
    ['named otherwise in its own header', { ...card, localName: 'evil.json' }, 'card_damaged'],
    ['nothing', { ...card, content: '' }, 'card_invalid'],
    ['no JSON', { ...card, content: 'hello' }, 'card_invalid'],
  ])('9 a card that is %s is refused', (_name, member: ZipMember, code) => {
    expect(outcome(zip([member]))).toBe(code)
  })
})

describe('15 archives', () => {
  test('15 zip bomb: a file that unpacks to more than 200 times its packed size is refused', () => {
    const bomb = zip([{ ...card, content: Buffer.alloc(10 * 1024 * 1024, ' ') }])
    expect(bomb.length).toBeLessThan(11_000)
    expect(refusal(bomb)).toMatchObject({ code: 'card_too_large', status: 413 })
  })

  test('15 zip bomb: a file with a false size in its header is refused', () => {
    const bomb = zip([{ ...card, content: Buffer.alloc(10 * 1024 * 1024, ' '), size: 10 }])
    expect(outcome(bomb)).toBe('card_damaged')
  })

  test('15 zip bomb: packed bytes without content are read, and bytes after the content are ignored', () => {
    // Stored blocks without content (RFC 1951, section 3.2.4).
    const empty = Buffer.alloc(500_000, Buffer.from('000000ffff', 'hex'))
    const packed = Buffer.concat([empty, deflateRawSync(card.content ?? ''), Buffer.from('rest')])
    expect(readCardSource(zip([{ ...card, packed }])).document).toEqual(cardOfV3)
  })

  test('15 a packed file without content is read, and packed bytes that end too early are refused', () => {
    const packed = deflateRawSync(card.content ?? '')
    expect(outcome(zip([{ ...card, packed: packed.subarray(0, -3) }]))).toBe('card_damaged')
    const [file] = listZip(zip([{ name: 'empty', content: '', packed: deflateRawSync('') }]))
    expect(file && unzip(file, 100)).toHaveLength(0)
  })

  test('15 zip bomb: at most 16 MiB are unpacked', () => {
    const noise = Buffer.from(Array.from({ length: 200_000 }, (_, index) => (index * 7919) % 251))
    const content = Buffer.concat(Array<Buffer>(90).fill(noise))
    const packed = Buffer.concat([deflateRawSync(content), Buffer.alloc(100_000)])
    expect(outcome(zip([{ ...card, content, packed }]))).toBe('card_too_large')
  })

  test('15 a list of files of up to 4 MiB is read, and a longer one is refused', () => {
    const files = Array.from({ length: 64 }, (_, index) => ({ name: String(index).padStart(65_000, 'a'), content: '' }))
    expect(outcome(zip([card, ...files]))).toBe('taken')
    expect(refusal(zip([card, ...files, { ...card, name: 'b'.repeat(65_000) }]))).toMatchObject({
      code: 'card_too_large',
      message: "The list of the archive's files has more than 4194304 bytes. Shorten the names of the files.",
    })
  })

  test('15 bombs next to the card are not unpacked', () => {
    expect(outcome(zip([{ name: 'a.bin', content: Buffer.alloc(10 * 1024 * 1024) }, card]))).toBe('taken')
  })

  test('15 two cards are refused', () => {
    expect(outcome(zip([card, { ...card, content: jsonBytes(cardOfV2) }]))).toBe('card_invalid')
  })

  test('15 overlapping files are refused', () => {
    const refused = refusal(zip([card, { name: 'copy.json', packed: Buffer.from('x'), offset: 0 }]))
    expect(refused).toMatchObject({ code: 'card_damaged', message: expect.stringContaining('overlap') })
    const nested = zip([{ name: 'outer.bin', content: zip([icon]), method: 0 }, { ...icon, offset: 39 }, card])
    expect(refusal(nested)?.message).toContain('overlap')
  })

  test('15 an archive may have up to 4,000 files', () => {
    const files = (count: number) => Array.from({ length: count }, (_, index) => ({ name: `${index}`, method: 0 }))
    expect(outcome(zip([...files(3_999), card]))).toBe('taken')
    expect(outcome(zip([...files(4_000), card]))).toBe('card_too_large')
  })

  test('15 path traversal: names are only compared, and never used as paths', () => {
    const names = ['../../etc/passwd', '/etc/passwd', 'C:\\x', '..\\x', 'a\0b', '__proto__']
    expect(readCardSource(zip([...names.map((name) => ({ name })), card])).document).toEqual(cardOfV3)
  })

  test('15 a symbolic link is not the card', () => {
    const link = { name: 'card.json', content: '/etc/passwd', attributes: 0xa1ff0000 }
    expect(outcome(zip([link]))).toBe('card_invalid')
    expect(readCardSource(zip([link, card])).document).toEqual(cardOfV3)
  })

  test.each([
    ['more files than there are', zip([card], { count: 2 }), 'card_damaged'],
    ['fewer files than there are', zip([card, icon], { count: 1 }), 'card_damaged'],
    ['Zip64', zip([card], { count: 0xffff }), 'card_unsupported'],
    ['a directory before the file', zip([card], { shift: 5 }), 'card_damaged'],
    ['a file behind the directory', zip([{ ...card, offset: 1e9 }]), 'card_damaged'],
    ['no end', zip([card]).subarray(0, -1), 'card_damaged'],
  ])('15 an archive is refused: %s', (_name, bytes, code) => {
    expect(outcome(bytes)).toBe(code)
  })

  test('15 truncated at every byte, an archive gives a CardError', () => {
    const small = zip([icon, card])
    for (let length = 0; length < small.length; length++) {
      expect(outcome(small.subarray(0, length)), `${length}`).toMatch(/^card_(invalid|damaged)$/)
    }
  })

  test('15 with any bytes changed, an archive gives a source or a CardError', () => {
    const small = zip([icon, card])
    const changes = fc.array(fc.tuple(fc.nat(small.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(changes, (edits) => {
        const bytes = Buffer.from(small)
        for (const [offset, value] of edits) bytes[offset] = value
        outcome(bytes)
      }),
      { numRuns: 1_000 },
    )
  })
})
