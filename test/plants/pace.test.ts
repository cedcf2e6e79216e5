import { expect, it } from 'vitest'
import type { Clock, Timer } from '../../src/clock.ts'
import { inBatches, Pace } from '../../src/plants/pace.ts'

/** A pace whose batches take a fixed time for each plant; only batches and pauses advance the clock. */
function paceWhere({
  msPerPlant,
  isServiceRunning,
}: {
  readonly msPerPlant: number
  readonly isServiceRunning: () => boolean
}) {
  let now = 0
  const pauses: number[] = []
  const clock: Clock = {
    now: () => now,
    setTimeout(callback, milliseconds): Timer {
      pauses.push(milliseconds)
      now += milliseconds
      setImmediate(callback)
      return { refresh() {}, close() {} }
    },
  }
  const pace = new Pace({ maxBatchMs: 4, isServiceRunning: async () => isServiceRunning() }, clock)
  const take = async (batches: number) => {
    const took: number[] = []
    for (let count = 0; count < batches; count++) {
      const { size } = pace
      took.push(size * msPerPlant)
      await pace.take(size, async () => {
        now += size * msPerPlant
      })
    }
    return { took, pauses: pauses.splice(0) }
  }
  return { pace, take }
}

it('beside a service, each batch takes a few milliseconds, and a pause of that length follows, at least 20 ms', async () => {
  for (const msPerPlant of [0.002, 0.02, 0.2]) {
    const { take } = paceWhere({ msPerPlant, isServiceRunning: () => true })
    const { took, pauses } = await take(50)
    expect(pauses).toHaveLength(50)
    for (const [index, ms] of took.entries()) {
      expect(ms).toBeLessThanOrEqual(20)
      expect(pauses[index]).toBeGreaterThanOrEqual(Math.max(20, ms))
    }
    expect(took.at(-1)).toBeGreaterThan(3.5)
  }
})

it('without a service, batches are large and have no pauses, until a service starts', async () => {
  let isServiceRunning = false
  const { pace, take } = paceWhere({ msPerPlant: 0.05, isServiceRunning: () => isServiceRunning })
  const { took, pauses } = await take(30)
  expect(pauses).toEqual([])
  expect(took[0]).toBeLessThanOrEqual(4)
  expect(took.at(-1)).toBeCloseTo(200, -1)
  isServiceRunning = true
  await take(6)
  expect(pace.size * 0.05).toBeLessThanOrEqual(4)
})

it("splits lists of any length into batches of the pace's size, and loses nothing", async () => {
  const { pace } = paceWhere({ msPerPlant: 0.02, isServiceRunning: () => true })
  async function* lists() {
    for (const length of [0, 1, 500, 79, 80, 0, 3]) yield Array.from({ length }, (_, index) => index)
  }
  const found: number[][] = []
  for await (const batch of inBatches(lists(), pace)) found.push([...batch])
  expect(found.flat()).toHaveLength(663)
  expect(new Set(found.slice(0, -1).map(({ length }) => length))).toEqual(new Set([pace.size]))
})
