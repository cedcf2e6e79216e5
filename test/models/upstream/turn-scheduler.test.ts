import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { TurnScheduler } from '../../../src/models/upstream/turn-scheduler.ts'
import { turnOfLoop } from '../../../src/turn.ts'

/** Asks for units in turn 0 of the event loop, and notes in `came` the turns in which they were granted. */
function taking(units: readonly number[]) {
  const turns = new TurnScheduler()
  const came: number[] = units.map(() => Number.NaN)
  const first = turnOfLoop()
  for (const [index, each] of units.entries()) {
    const wait = turns.take(each)
    if (wait) void wait.then(() => (came[index] = turnOfLoop() - first))
    else came[index] = 0
  }
  return {
    came,
    turns,
    async pass(count: number) {
      for (let turn = 0; turn < count; turn++) await nextTurn()
    },
  }
}

describe('the turn scheduler', () => {
  it('lets small answers share a turn of the event loop, in their order', async () => {
    const { came, pass } = taking([3000, 3000, 3000, 3000, 1000])
    expect(came).toEqual([0, 0, Number.NaN, Number.NaN, Number.NaN])
    await pass(5)
    expect(came).toEqual([0, 0, 1, 1, 1])
  })

  it('gives a large answer a turn of its own', async () => {
    const { came, pass } = taking([500_000, 500_000, 500_000])
    await pass(6)
    expect(came).toEqual([0, 1, 2])
  })

  it('never lets the few events of an ordinary stream wait', () => {
    const { came } = taking([500_000, 500_000, 40, 40])
    expect(came).toEqual([0, Number.NaN, 0, 0])
  })

  it('lets long and short pieces take turns, so that a short one waits for one long piece', async () => {
    const { came, pass } = taking([500_000, 500_000, 500_000, 500_000, 3000, 6000])
    await pass(8)
    expect(came).toEqual([0, 2, 4, 5, 1, 3])
  })

  it('lets a large answer pass although small events fill every turn', async () => {
    const { came, turns, pass } = taking([8000, 500_000])
    for (let turn = 0; turn < 3; turn++) {
      for (let event = 0; event < 100; event++) expect(turns.take(100)).toBeUndefined()
      await pass(1)
    }
    expect(came).toEqual([0, 1])
  })
})
