import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fileFromBase64, fileFromUrl } from '../../../src/models/ai-sdk/media.ts'
import { atOnce, counted } from '../../support/composed.ts'

/** The content of a `data:` URL. */
function contentOf(url: string): unknown {
  return atOnce(fileFromUrl(url, 'file', 'url', {})).data
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
  const file = (base64: string) => atOnce(fileFromBase64(base64, 'text/plain', 'data')).data

  it('is decoded, whatever its alphabet and its padding', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1 }), fc.constantFrom('base64', 'base64url'), (bytes, alphabet) => {
        expect(file(Buffer.from(bytes).toString(alphabet))).toEqual(bytesOf(bytes))
      }),
    )
    const long = Buffer.alloc(1_000_000, 'Wässere täglich. ')
    expect(file(long.toString('base64'))).toEqual(bytesOf(long))
  })

  it.each(['', '=', '==', 'AA=A', 'AAA===', 'AA AA', `${'A'.repeat(200_000)}!`, `${'A'.repeat(70_000)}=A`])(
    'is refused if it is no base64 (%#)',
    (text) => {
      expect(() => file(text)).toThrow('is not base64')
    },
  )
})

it.each([
  ['base64 that a package reads', fileFromBase64('-_'.repeat(3_750_000), 'text/plain', 'data')],
  ['other base64', fileFromBase64('A'.repeat(7_500_000), 'image/png', 'data')],
  ['escapes', fileFromUrl(`data:,${'%41'.repeat(2_500_000)}`, 'file', 'url', {})],
])('a file of 7.5 MB is checked and decoded in steps: %s', (_what, steps) => {
  const { units } = counted(steps)
  expect(Math.max(...units)).toBeLessThan(300_000)
  expect(units.length).toBeGreaterThan(25)
})
