import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { TurnScheduler } from '../../../src/models/upstream/turn-scheduler.ts'

/** Takes units, and notes the turn of the event loop in which each was granted. */
function taking(units: readonly number[]) {
  const turns = new TurnScheduler()
  const came: number[] = units.map(() => Number.NaN)
  // Zero is the first turn after the one in which all units are requested.
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

describe('the turn scheduler', () => {
  it('lets small answers share a turn of the event loop, in their order', async () => {
    const { came, pass } = taking([3000, 3000, 3000, 3000, 1000])
    expect(came).toEqual([-1, -1, Number.NaN, Number.NaN, Number.NaN])
    await pass(5)
    expect(came).toEqual([-1, -1, 0, 0, 0])
  })

  it('gives a large answer a turn of its own', async () => {
    const { came, pass } = taking([500_000, 500_000, 500_000])
    await pass(6)
    expect(came).toEqual([-1, 0, 1])
  })

  it('lets the few events of an ordinary stream through at once', () => {
    const { came } = taking([500_000, 500_000, 40, 40])
    expect(came).toEqual([-1, Number.NaN, -1, -1])
  })
})
