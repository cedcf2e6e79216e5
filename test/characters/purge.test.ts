import { expect, it, onTestFinished } from 'vitest'
import { CharacterUses } from '../../src/characters/character-uses.ts'
import type { CharacterKey, VersionKey } from '../../src/characters/library/character.ts'
import { type PurgeOptions, purgeVersions } from '../../src/characters/purge.ts'
import { TestClock } from '../support/clock.ts'

const day = 86_400
const [minute, hour, between] = [60_000, 3_600_000, 20]

/** Starts the purges of a store with three pages. `said` has the calls of the store and of the callbacks. */
function purgeForThisTest(options: Partial<PurgeOptions> = {}) {
  const clock = new TestClock()
  const said: unknown[] = []
  let unix = 1000 * day + 5000
  const version = (name: string): VersionKey => ({ account: 1, name, digest: 'd' })
  const store = {
    async purge(after: CharacterKey | null, usedSince: number) {
      said.push([after?.name ?? null, usedSince])
      if (after === null) return { removed: [version('a'), version('a')], after: version('a'), isLast: false }
      if (after.name === 'a') return { removed: [], after: version('b'), isLast: false }
      return { removed: [version('c')], after: version('c'), isLast: true }
    },
  }
  const stop = purgeVersions({
    store,
    uses: { flush: async () => void said.push('flushed') },
    clock,
    now: () => unix,
    onRemoved: (versions) => said.push(`removed ${versions}`),
    onFailure: (error) => said.push(error),
    ...options,
  })
  onTestFinished(stop)
  const pass = async (milliseconds: number) => {
    await clock.untilWaiting(milliseconds)
    clock.advance(milliseconds)
  }
  return { clock, said, stop, pass, setTime: (time: number) => (unix = time) }
}

it('a purge begins a minute after the start, is repeated every hour, and reports the number of removed versions', async () => {
  const { said, pass, clock, setTime } = purgeForThisTest()
  await pass(minute)
  await pass(between)
  await pass(between)
  await clock.untilWaiting(hour)
  const since = 910 * day
  expect(said.splice(0)).toStrictEqual(['flushed', [null, since], ['a', since], ['b', since], 'removed 3'])
  setTime(1001 * day)
  await pass(hour)
  await pass(between)
  await pass(between)
  await clock.untilWaiting(hour)
  expect(said[1]).toStrictEqual([null, 911 * day])
})

it('a purge that failed is repeated after an hour, and a running purge can be stopped', async () => {
  let tries = 0
  const failing = {
    async purge() {
      if (++tries === 1) throw new Error('no room')
      return { removed: [], after: { account: 1, name: 'a' }, isLast: false }
    },
  }
  const { said, pass, clock, stop } = purgeForThisTest({ store: failing })
  await pass(minute)
  await pass(hour)
  await clock.untilWaiting(between)
  await stop()
  expect(said).toStrictEqual(['flushed', new Error('no room'), 'flushed'])
  await clock.untilWaiting(between, false)
})

it('a use is written once a day for each version, and the next use is written if a write failed', async () => {
  const written: unknown[] = []
  let unix = 5 * day
  let fails = false
  const noteUses = async (versions: readonly VersionKey[], moment: number) => {
    if (fails) throw new Error('no room')
    written.push([versions.map(({ name }) => name), moment])
  }
  const uses = new CharacterUses({ noteUses }, () => unix)
  const note = (name: string) => uses.note({ account: 1, name, digest: 'd' })
  for (const name of ['a', 'b', 'a']) note(name)
  await uses.flush()
  unix += day - 1
  note('a')
  await uses.flush()
  expect(written.splice(0)).toStrictEqual([[['a', 'b'], 5 * day]])
  unix++
  fails = true
  note('a')
  await uses.flush()
  fails = false
  note('a')
  await uses.flush()
  expect(written).toStrictEqual([[['a'], 6 * day]])
})
