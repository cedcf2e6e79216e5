import { PassThrough, type Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { BodyPace } from '../../src/http/body-pace.ts'
import { turnOfLoop } from '../../src/turn.ts'

const pieceBytes = 64 * 1024
const piece = Buffer.alloc(pieceBytes)

/** Reads bodies of so many pieces at one pace. @returns the pieces of each turn of the event loop, as the numbers of their bodies */
async function turnsOf(pieces: readonly number[]): Promise<readonly (readonly number[])[]> {
  const pace = new BodyPace()
  const turns = new Map<number, number[]>()
  const bodies: readonly Readable[] = pieces.map((count) => {
    const body = new PassThrough({ highWaterMark: Number.MAX_SAFE_INTEGER })
    for (let index = 0; index < count; index++) body.write(piece)
    body.end()
    return body
  })
  const ends = bodies.map((body, number) => {
    body.on('data', ({ length }: Buffer) => {
      const turn = turnOfLoop()
      turns.set(turn, [...(turns.get(turn) ?? []), number])
      pace.take(body, length)
    })
    return new Promise((resolve) => body.once('end', resolve))
  })
  let isOver = false
  void Promise.all(ends).then(() => {
    isOver = true
  })
  while (!isOver) await nextTurn()
  return [...turns.values()]
}

it('the bodies of many clients share 1 MiB of each turn, and every body arrives whole', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 80 }), async (pieces) => {
      const turns = await turnsOf(pieces)
      const found = pieces.map((_count, number) => turns.flat().filter((each) => each === number).length)
      expect(found).toEqual(pieces)
      for (const turn of turns) {
        // After 16 pieces in a turn, each body that is not paused yet takes one more piece, which has been read already.
        expect(turn.length).toBeLessThanOrEqual(16 + pieces.length)
        // A body that was paused in this turn continues in a later turn.
        expect(turn.slice(16)).toEqual([...new Set(turn.slice(16))])
      }
    }),
    { numRuns: 20 },
  )
})

it('bodies that are moved in memory share 1 MiB of each turn, too', async () => {
  const pace = new BodyPace()
  const turns = new Map<number, number>()
  const bodies = 3
  const moves = 200
  const moved = Array.from({ length: bodies }, () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    let left = moves
    const resume = () => {
      while (left-- > 0) {
        const turn = turnOfLoop()
        turns.set(turn, (turns.get(turn) ?? 0) + 1)
        if (pace.take({ pause() {}, resume }, pieceBytes)) return
      }
      resolve()
    }
    resume()
    return promise
  })
  await Promise.all(moved)
  expect([...turns.values()].reduce((sum, count) => sum + count)).toBe(bodies * moves)
  // After 16 moves in a turn, each body that is not paused yet moves one more part.
  expect(Math.max(...turns.values())).toBeLessThanOrEqual(16 + bodies)
})
