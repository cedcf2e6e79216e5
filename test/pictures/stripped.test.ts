import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { pictureFacts, strippedParts } from '../../src/pictures/facts.ts'
import { PictureError } from '../../src/pictures/parts.ts'
import { pngChunk } from '../support/containers.ts'
import { often } from '../support/often.ts'
import { type PictureCase, pictureCases, riff, secret, segment } from '../support/pictures.ts'

const strip = (bytes: Buffer, { type }: Pick<PictureCase, 'type'>) => Buffer.concat(strippedParts(bytes, type))

/** A stripped picture; undefined if it is refused with one of our sentences. */
function stripOrRefuse(bytes: Buffer, picture: PictureCase): Buffer | undefined {
  try {
    return strip(bytes, picture)
  } catch (error) {
    expect(error).toBeInstanceOf(PictureError)
    return undefined
  }
}

describe.each(Object.entries(pictureCases))('a stripped %s', (_name, picture) => {
  const { type, bare, full, shown } = picture

  it('has no metadata and no bytes after its end, but the orientation and the colour profile', () => {
    expect(full.toString('latin1')).toContain(secret)
    expect(strip(full, picture).toString('hex')).toBe(shown.toString('hex'))
    expect(pictureFacts(shown)).toEqual(pictureFacts(full))
  })

  it('stays as it is when it has nothing to remove, or is stripped again', () => {
    expect(pictureFacts(bare)?.type).toBe(type)
    for (const clean of [bare, shown]) expect(strip(clean, picture).equals(clean)).toBe(true)
  })

  it('of a file that is cut off anywhere is refused, or has nothing of the metadata', () => {
    for (let length = 30; length < full.length; length++) {
      const stripped = stripOrRefuse(full.subarray(0, length), picture)
      expect(stripped?.toString('latin1') ?? '').not.toContain(secret)
    }
  })

  it('of a file with changed bytes is refused, or little longer than the file and the same when stripped again', () => {
    const changes = fc.array(fc.tuple(fc.nat(full.length - 1), fc.oneof(fc.nat(255), fc.constantFrom(0, 0xff, 0x7f))), {
      minLength: 1,
      maxLength: 6,
    })
    fc.assert(
      fc.property(changes, fc.nat(full.length), (changed, cut) => {
        const bytes = Buffer.from(full.subarray(0, Math.max(30, full.length - (cut % 100))))
        for (const [at, byte] of changed) if (at >= 12 && at < bytes.length) bytes[at] = byte
        const stripped = stripOrRefuse(bytes, picture)
        if (stripped === undefined) return
        expect(stripped.length).toBeLessThan(bytes.length + 100)
        expect(strip(stripped, picture).equals(stripped)).toBe(true)
      }),
      { numRuns: often(300) },
    )
  })
})

describe('a picture of very many parts', () => {
  const many = (part: Buffer) => Buffer.concat(Array<Buffer>(30_000).fill(part))

  it.each([
    ['JPEG', Buffer.concat([Buffer.from('ffd8', 'hex'), many(segment(0xfe, ''))])],
    ['PNG', Buffer.concat([pictureCases.PNG.bare.subarray(0, 8), many(pngChunk('IDAT'))])],
    ['GIF', Buffer.concat([pictureCases.GIF.bare.subarray(0, 37), many(Buffer.from('21fe00', 'hex'))])],
    ['WebP', riff('RIFF', Buffer.concat([Buffer.from('WEBP'), many(riff('XMP ', ''))]))],
    [
      'animated WebP',
      riff(
        'RIFF',
        Buffer.concat([
          Buffer.from('WEBP'),
          riff('VP8X', Buffer.alloc(10)),
          riff('ANMF', Buffer.concat([Buffer.alloc(16), many(riff('XMP ', ''))])),
        ]),
      ),
    ],
  ] as const)('is refused: %s', (name, bytes) => {
    expect(() => strip(bytes, pictureCases[name])).toThrow('more than 20000 parts')
  })
})
