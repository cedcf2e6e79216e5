import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { crc32Steps, digestSteps, joinBytes, utf8Bytes } from '../src/bytes.ts'
import { storedFile, writeZip } from '../src/characters/cards/zip-writer.ts'
import { atOnce, counted } from './support/composed.ts'

const most = (units: readonly number[]) => Math.max(...units)
const sum = (units: readonly number[]) => units.reduce((total, each) => total + each, 0)

describe('bytes', () => {
  it('are joined in a step for each piece, also for empty pieces', () => {
    const parts = Array.from({ length: 5000 }, (_, index) => Buffer.alloc(index % 3, index))
    const { result, units } = counted(joinBytes(parts))
    expect(result.equals(Buffer.concat(parts))).toBe(true)
    expect(units.length).toBeGreaterThanOrEqual(5000)
    expect(sum(units)).toBeGreaterThanOrEqual(5000 * 20)
  })

  it.each([crc32Steps, digestSteps])('are read in steps of a megabyte, and each call costs units (%#)', (read) => {
    expect(sum(counted<unknown>(read(Buffer.alloc(0))).units)).toBeGreaterThan(0)
    expect(most(counted<unknown>(read(Buffer.alloc(5_000_000))).units)).toBeLessThan(100_000)
  })

  it('of a text are the bytes of its UTF-8, encoded in steps', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.nat(9), (text, before) => {
        const long = `${'a'.repeat(65_530 + before)}${text}ä🌿`
        const { result, units } = counted(utf8Bytes(long))
        expect(result.equals(Buffer.from(long))).toBe(true)
        expect(most(units)).toBeLessThan(30_000)
      }),
    )
    expect(atOnce(utf8Bytes(''))).toEqual(Buffer.alloc(0))
  })

  it('of 300,000 pieces become a file of an archive', () => {
    const pieces = Array<Buffer>(300_000).fill(Buffer.from('a'))
    const archive = atOnce(writeZip([atOnce(storedFile('a', pieces))]))
    expect(archive.includes(Buffer.alloc(300_000, 'a'))).toBe(true)
  })
})
