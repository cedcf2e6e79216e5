import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { TurnScheduler } from '../../../src/models/upstream/turn-scheduler.ts'

/** Asks for units, and notes in `came` the turn of the event loop in which they were granted. */
function taking(units: readonly number[]) {
  const turns = new TurnScheduler()
  const came: number[] = units.map(() => Number.NaN)
  // All units are requested in turn -1. Turn 0 is the next one.
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

  it('never lets the few events of an ordinary stream wait', () => {
    const { came } = taking([500_000, 500_000, 40, 40])
    expect(came).toEqual([-1, Number.NaN, -1, -1])
  })
})
