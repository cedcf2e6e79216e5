import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { TurnScheduler } from '../../../src/models/upstream/turn-scheduler.ts'

/** Takes turns, and notes in which turn of the event loop each came. */
function taking(units: readonly number[]) {
  const turns = new TurnScheduler()
  const came: number[] = units.map(() => Number.NaN)
  // Zero is the first turn after the one in which all is asked for.
  let turn = -1
  for (const [index, each] of units.entries()) {
    const wait = turns.take(each)
    if (wait) void wait.then(() => (came[index] = turn))
    else came[index] = turn
  }
  return {
    came,
    async pass(count: number) {
      for (turn = 0; turn < count; turn++) await nextTurn()
    },
  }
}

describe('the turns of answers', () => {
  it('share a turn of the event loop as long as they are small, in their order', async () => {
    const { came, pass } = taking([3000, 3000, 3000, 3000, 1000])
    expect(came).toEqual([-1, -1, Number.NaN, Number.NaN, Number.NaN])
    await pass(5)
    expect(came).toEqual([-1, -1, 0, 0, 0])
  })

  it('give what is large a turn of its own', async () => {
    const { came, pass } = taking([500_000, 500_000, 500_000])
    await pass(6)
    expect(came).toEqual([-1, 0, 1])
  })

  it('let the few events of an honest stream through at once', () => {
    const { came } = taking([500_000, 500_000, 40, 40])
    expect(came).toEqual([-1, Number.NaN, -1, -1])
  })
})
