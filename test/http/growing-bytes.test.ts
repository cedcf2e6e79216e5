import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { GrowingBytes } from '../../src/http/growing-bytes.ts'

const kibibyte = 1024
const blockBytes = 1024 * kibibyte

/** Pieces with different bytes. */
const pieces = fc
  .array(fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 900 * kibibyte })), {
    minLength: 1,
    maxLength: 12,
  })
  .map((lengths) => lengths.map((length, index) => Buffer.alloc(length, index + 1)))

/** Moves all that can be moved now. @returns the bytes of each move */
function moveAll(body: GrowingBytes): readonly number[] {
  const moves: number[] = []
  for (let moved = body.move(); moved > 0; moved = body.move()) moves.push(moved)
  return moves
}

describe('the bytes of a growing body', () => {
  it('are those of its pieces, with and without an announced length, and no move takes more than 64 KiB', () => {
    fc.assert(
      fc.property(pieces, fc.boolean(), fc.boolean(), (given, isAnnounced, isMovedBetween) => {
        const whole = Buffer.concat(given)
        const body = new GrowingBytes(isAnnounced ? whole.length : Number.NaN)
        const moves: number[] = []
        for (const piece of given) {
          // The body frees the piece.
          body.add(Buffer.from(Uint8Array.from(piece).buffer))
          if (isMovedBetween) moves.push(body.move())
        }
        body.end()
        moves.push(...moveAll(body))
        expect(body.bytes().equals(whole)).toBe(true)
        expect(Math.max(...moves, 0)).toBeLessThanOrEqual(64 * kibibyte)
      }),
      { numRuns: 60 },
    )
  })

  it('are not copied if the body is one piece', () => {
    const piece = Buffer.alloc(50_000)
    const body = new GrowingBytes(piece.length)
    body.add(piece)
    body.end()
    expect(body.move()).toBe(0)
    expect(body.bytes()).toBe(piece)
  })

  it('are moved when a quarter of the announced bytes has arrived, and each block is freed when it is moved', () => {
    const body = new GrowingBytes(8 * blockBytes)
    for (let count = 0; count < 2; count++) body.add(Buffer.alloc(blockBytes, 1))
    expect(moveAll(body)).toEqual([])
    body.add(Buffer.alloc(blockBytes, 2))
    const before = process.memoryUsage().arrayBuffers
    expect(moveAll(body)).toEqual(Array.from({ length: 32 }, () => 64 * kibibyte))
    expect(before - process.memoryUsage().arrayBuffers).toBeGreaterThanOrEqual(2 * blockBytes)
  })
})
