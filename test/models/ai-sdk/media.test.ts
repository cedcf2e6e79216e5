import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fileFromBase64, fileFromUrl } from '../../../src/models/ai-sdk/media.ts'

/** The content of a `data:` URL. */
function contentOf(url: string): unknown {
  return fileFromUrl(url, 'file', 'url', {}).data
}

const bytesOf = (data: Uint8Array | Buffer) => ({ type: 'data', data: Buffer.from(data) })
const escaped = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex').replace(/../g, '%$&')

describe('a percent-encoded data: URL', () => {
  it('has any bytes, also beyond UTF-8 (RFC 2397)', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.string({ unit: 'binary' }), (bytes, text) => {
        const plain = text.replaceAll('%', '')
        const expected = Buffer.concat([Buffer.from(bytes), Buffer.from(plain), Buffer.from(bytes)])
        expect(contentOf(`data:,${escaped(bytes)}${plain}${escaped(bytes)}`)).toEqual(bytesOf(expected))
      }),
    )
  })

  it.each([0, 1, 2, 3])('is cut neither in an escape nor in a character (%i letters before)', (before) => {
    const start = 'a'.repeat(65_532 + before)
    expect(contentOf(`data:,${start}%C3%A4${'b'.repeat(9)}`)).toEqual(bytesOf(Buffer.from(`${start}ä${'b'.repeat(9)}`)))
    expect(contentOf(`data:,${start}🌿🌿🌿`)).toEqual(bytesOf(Buffer.from(`${start}🌿🌿🌿`)))
  })

  it.each(['%', '%4', '%zz', '%4🌿', `${'a'.repeat(65_535)}%`, `${'a'.repeat(70_000)}%4`])(
    'is refused with an escape that is not whole (%#)',
    (content) => {
      expect(() => contentOf(`data:,${content}`)).toThrow('is not a whole data: URL')
    },
  )
})

describe('a file in base64', () => {
  const file = (base64: string, type = 'image/png') => fileFromBase64(base64, type, 'data')
  const unpadded = (base64: string) => base64.replace(/=+$/, '')
  const urlSafe = (base64: string) => base64.replaceAll('+', '-').replaceAll('/', '_')

  it('gets the standard alphabet and its padding', () => {
    const bytes = fc.tuple(fc.uint8Array({ minLength: 1 }), fc.constantFrom(0, 49_150, 70_000))
    fc.assert(
      fc.property(bytes, fc.boolean(), fc.boolean(), ([end, before], isUrlSafe, isUnpadded) => {
        const base64 = Buffer.concat([Buffer.alloc(before, 'a'), end]).toString('base64')
        const written = isUrlSafe ? urlSafe(base64) : base64
        const { data } = file(isUnpadded ? unpadded(written) : written)
        expect(data).toEqual({ type: 'data', data: base64 })
      }),
    )
  })

  it.each([
    '',
    '=',
    '==',
    'A',
    'AAAAA',
    'AA=A',
    'AAA===',
    'AA AA',
    `${'A'.repeat(200_000)}!`,
    `${'A'.repeat(70_000)}=A`,
  ])('is refused if it is no base64 (%#)', (text) => {
    expect(() => file(text)).toThrow('is not base64')
  })

  it('is bytes if it is a text, because packages read texts', () => {
    const long = Buffer.alloc(1_000_000, 'Wässere täglich. 🌿')
    expect(file(long.toString('base64url'), 'text/plain').data).toEqual(bytesOf(long))
  })

  it.each([
    ['in base64', () => fileFromBase64('-_-_', 'text/plain', 'data')],
    [
      'cut in a character',
      () => fileFromBase64(Buffer.from('Wä').toString('base64').slice(0, 3), 'text/plain', 'data'),
    ],
    ['with escapes', () => fileFromUrl('data:text/html;charset=latin1,W%E4ssern', 'file', 'url', {})],
  ])('is refused if it is a text but no UTF-8: %s', (_what, read) => {
    expect(read).toThrow('is a text file that is not UTF-8')
  })

  it('that begins with the tag of an MP3 file is one, if its type has no subtype', () => {
    const sound = Buffer.from('ID3\x04\0\0\0\0\0\0').toString('base64')
    expect(['audio/*', 'image', 'audio/wav'].map((type) => file(sound, type).mediaType)).toEqual([
      'audio/mpeg',
      'audio/mpeg',
      'audio/wav',
    ])
  })
})
