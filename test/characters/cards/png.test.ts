import { deflateSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { avatarProblem } from '../../../src/characters/cards/avatar.ts'
import { pictureOf } from '../../../src/characters/cards/png.ts'
import { readCardSource } from '../../../src/characters/cards/source.ts'
import { strippedPng } from '../../../src/pictures/png.ts'
import { cardOfV2, cardOfV3, outcome, refusal } from '../../support/cards.ts'
import { base64, cardChunk, chunksIn, png, pngChunk } from '../../support/containers.ts'

const v3 = cardChunk('ccv3', cardOfV3)
const v2 = cardChunk('chara', cardOfV2)
const documentOf = (...chunks: Buffer[]) => readCardSource(png(...chunks)).document

/** Chunks of these types with the text of a card. A zTXt text is compressed, and an iTXt text may be compressed. */
const zTXt = (text: string | Buffer) => pngChunk('zTXt', Buffer.concat([Buffer.from('ccv3\0\0'), deflateSync(text)]))
const iTXt = (text: string, isPacked: boolean) =>
  pngChunk(
    'iTXt',
    Buffer.concat([
      Buffer.from(`ccv3\0${isPacked ? '\x01' : '\0'}\0en\0key\0`),
      isPacked ? deflateSync(text) : Buffer.from(text),
    ]),
  )

describe('8.1 the chunk walk', () => {
  test('8.1 the card may come before or after the pixels, and IEND may be missing', () => {
    const whole = png(v3)
    expect(readCardSource(whole.subarray(0, -12)).document).toEqual(cardOfV3)
    const first = Buffer.concat([whole.subarray(0, 8), v3, png().subarray(8)])
    expect(readCardSource(first).document).toEqual(cardOfV3)
  })

  test('8.1 bytes after IEND are not read', () => {
    expect(outcome(Buffer.concat([png(), v3]))).toBe('card_not_found_in_image')
    expect(outcome(Buffer.concat([png(v3), Buffer.from('trailing')]))).toBe('taken')
  })

  test.each([100_000_000, 0x7fffffff, 0x80000000, 0xffffffff])('8.1 a declared length of %i is refused', (length) => {
    expect(outcome(png(pngChunk('tEXt', 'chara\0', { length })))).toBe('card_damaged')
  })

  test('8.1 an animated picture may hold a card', () => {
    expect(documentOf(pngChunk('acTL', '\0\0\0\x01\0\0\0\0'), v3)).toEqual(cardOfV3)
  })

  test('15 a card in a picture with 2^31 - 1 pixels a side is read, because pixels are not decoded', () => {
    const header = pngChunk('IHDR', Buffer.from('7fffffff7fffffff1006000000', 'hex'))
    expect(outcome(Buffer.concat([png().subarray(0, 8), header, v3]))).toBe('taken')
  })

  test('15 too many chunks are refused', () => {
    const chunks = (count: number) => Buffer.concat(Array<Buffer>(count).fill(pngChunk('abCd')))
    expect(outcome(png(chunks(20_000), v3))).toBe('card_too_large')
    expect(outcome(png(chunks(19_996), v3))).toBe('taken')
  })
})

describe('8.2 text chunks', () => {
  test.each([
    ['tEXt', v3],
    ['zTXt', zTXt(base64(cardOfV3))],
    ['iTXt', iTXt(base64(cardOfV3), false)],
    ['packed iTXt', iTXt(base64(cardOfV3), true)],
    ['a keyword in capitals', cardChunk('CCv3', cardOfV3)],
  ])('8.2 %s is read', (_name, chunk) => {
    expect(documentOf(chunk)).toEqual(cardOfV3)
  })

  test.each(['chara2', 'ccv33', 'xchara', 'Comment'])('8.2 a text with the keyword %s is not a card', (keyword) => {
    expect(outcome(png(cardChunk(keyword, cardOfV3)))).toBe('card_not_found_in_image')
  })

  test.each([
    ['zTXt', pngChunk('zTXt', 'ccv3\0\0no deflate'), 'card_damaged'],
    ['zTXt without anything', pngChunk('zTXt', 'ccv3\0'), 'card_unsupported'],
    ['zTXt of method 1', pngChunk('zTXt', 'ccv3\0\x01abc'), 'card_unsupported'],
    ['iTXt without a text', pngChunk('iTXt', 'ccv3\0\0\0en'), 'card_damaged'],
    ['iTXt without anything', pngChunk('iTXt', 'ccv3\0'), 'card_damaged'],
  ])('8.2 damaged %s is refused', (_name, chunk, code) => {
    expect(outcome(png(chunk))).toBe(code)
  })

  test('15 PNG bomb: unpacking stops at 16 MiB', () => {
    const bomb = zTXt(Buffer.alloc(17 * 1024 * 1024, 'A'))
    expect(bomb.length).toBeLessThan(20_000)
    expect(refusal(png(bomb))).toMatchObject({ code: 'card_too_large', status: 413 })
  })

  test('15 base64 of more than 24 MiB is refused', () => {
    const chunk = pngChunk('tEXt', Buffer.concat([Buffer.from('ccv3\0'), Buffer.alloc(24 * 1024 * 1024 + 1, 'A')]))
    expect(outcome(png(chunk))).toBe('card_too_large')
  })

  test.each(['A', ' ', '=', 'A '])('15 24 MiB of %j are refused in linear time', (text) => {
    const chunk = pngChunk('tEXt', Buffer.concat([Buffer.from('ccv3\0'), Buffer.alloc(24 * 1024 * 1024, text)]))
    expect(['card_too_large', 'card_damaged']).toContain(outcome(png(chunk)))
  })
})

describe('8.3 choice of the card', () => {
  test('8.3 ccv3 beats chara in any order', () => {
    expect(documentOf(v2, v3)).toEqual(cardOfV3)
    expect(documentOf(v3, v2)).toEqual(cardOfV3)
    expect(documentOf(v2)).toEqual(cardOfV2)
  })

  test('8.3 the first of several chunks is read', () => {
    expect(documentOf(v3, cardChunk('ccv3', { ...cardOfV3, data: { name: 'Other' } }))).toEqual(cardOfV3)
  })
})

describe('8.4 the payload', () => {
  const text = (payload: string | Buffer) =>
    pngChunk('tEXt', Buffer.concat([Buffer.from('ccv3\0'), Buffer.from(payload)]))
  const named = { ...cardOfV3, data: { name: 'Żółć 李 🌵 ÿþ??>>' } }

  test.each([
    ['broken into lines', base64(named).replace(/.{20}/g, '$&\r\n')],
    ['without padding', base64(named).replaceAll('=', '')],
    ['with padding on a line of its own', base64({ ...named, x: 'a' }).replace(/=+$/, '\n$&\n')],
    ['in the base64 alphabet for URLs', Buffer.from(JSON.stringify(named)).toString('base64url')],
    ['with a byte order mark', Buffer.from(`\uFEFF${JSON.stringify(named)}`).toString('base64')],
    ['raw JSON', JSON.stringify(named)],
    ['raw JSON after a byte order mark', `\uFEFF ${JSON.stringify(named)}`],
  ])('8.4 %s is read as UTF-8', (_name, payload) => {
    expect(documentOf(text(payload))).toMatchObject(named)
  })

  test.each([
    ['no base64', '*not base64*'],
    ['nothing', ''],
    ['base64 after padding', `${base64({ a: 1 })}==AAAA`],
    ['no UTF-8', Buffer.from([0x7b, 0xff, 0x7d]).toString('base64')],
    ['no JSON', Buffer.from('hello').toString('base64')],
    ['an array', base64([cardOfV3])],
  ])('8.4 %s is a damaged card', (_name, payload) => {
    expect(outcome(png(text(payload)))).toBe('card_damaged')
  })

  test('8.4 a card that RisuAI encrypted is refused with its own message', () => {
    const error = refusal(png(text('rcc||rccv1||SECRET||')))
    expect(error).toMatchObject({ code: 'card_unsupported', message: expect.stringContaining('RisuAI') })
    expect(error?.message).not.toContain('SECRET')
  })
})

describe('8.5 and 8.6 damage', () => {
  const broken = pngChunk('tEXt', 'ccv3\0!!!')

  test('8.5 chara replaces a damaged ccv3, with a warning', () => {
    const { document, warnings } = readCardSource(png(broken, v2))
    expect(document).toEqual(cardOfV2)
    expect(warnings).toEqual([expect.stringContaining('V2 copy')])
  })

  test('8.5 no card and a damaged card are different errors', () => {
    expect(outcome(png())).toBe('card_not_found_in_image')
    expect(outcome(png(broken))).toBe('card_damaged')
    expect(outcome(png(broken, pngChunk('tEXt', 'chara\0!!!')))).toBe('card_damaged')
    expect(outcome(png(pngChunk('tEXt', 'chara\0!!!')))).toBe('card_damaged')
  })

  test('8.6 a wrong checksum gives a warning, and the card is read', () => {
    const { document, warnings } = readCardSource(png(cardChunk('ccv3', cardOfV3, { checksum: 1 })))
    expect(document).toEqual(cardOfV3)
    expect(warnings).toEqual([expect.stringContaining('checksum')])
  })
})

describe('15 a large picture', () => {
  test('15 is checked without a copy', () => {
    const source = readCardSource(png(pngChunk('IDAT', Buffer.alloc(20_000_000)), pngChunk('tEXt', 'a\0b'), v3))
    const before = process.memoryUsage().arrayBuffers
    expect(avatarProblem(source)).toEqual({ has: true, warning: null })
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000)
  })

  test('15 chunks that follow one another are one piece of the picture, and a wrong checksum is replaced', () => {
    const many = Buffer.concat(Array<Buffer>(6000).fill(pngChunk('IDAT')))
    const picture = png(many, pngChunk('tEXt', 'a'), many, pngChunk('IDAT', 'b', { checksum: 1 }), many, v3)
    const pieces = pictureOf(picture)
    expect(pieces.length).toBeLessThan(12)
    const sound = png(many, pngChunk('tEXt', 'a'), many, pngChunk('IDAT', 'b'), many)
    expect(Buffer.concat([...pieces]).equals(sound)).toBe(true)
    expect(Buffer.concat(strippedPng(picture)).equals(png(many, many, pngChunk('IDAT', 'b'), many))).toBe(true)
  })
})

describe('15 PNG fuzzing', () => {
  const small = png(zTXt(base64(cardOfV3)), v2)

  test('15 truncated at every byte, a file gives a source or a CardError', () => {
    let end = 8
    const chunkEnds = chunksIn(small).map(({ data }) => {
      end += 12 + data.length
      return end
    })
    for (let length = 0; length < small.length; length++) {
      // A file that is cut between two chunks only lacks IEND, which may be missing.
      const isWhole = length === 8 || chunkEnds.includes(length)
      const expected = isWhole ? /^(taken|card_not_found_in_image)$/ : /^card_(invalid|damaged)$/
      expect(outcome(small.subarray(0, length)), `${length}`).toMatch(expected)
    }
  })

  test('15 with any bytes changed, a file gives a source or a CardError', () => {
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
