import { expect, it, onTestFinished } from 'vitest'
import { CharacterUses } from '../../src/characters/character-uses.ts'
import type { CharacterKey, VersionKey } from '../../src/characters/library/character.ts'
import { type PurgeOptions, purgeVersions } from '../../src/characters/purge.ts'
import { TestClock } from '../support/clock.ts'
import { temporaryFolder } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

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

it('a step of a purge reads the versions of few characters if they have many versions', async () => {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  const { characters } = await storesForThisTest(path)
  const sql = await sqlForThisTest(path)
  await sql.run("INSERT INTO accounts (id, name, created) VALUES (7, 'gardeners', 0)")
  const names = "(SELECT 'a' AS name UNION SELECT 'b' UNION SELECT 'c' UNION SELECT 'd')"
  const numbers = '(WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1100) SELECT n FROM n)'
  await sql.run(`
    INSERT INTO characters (account, name, folded, digest, about, created, updated)
    SELECT 7, name, name, '1', '{}', 1, 1 FROM ${names} AS names`)
  await characters.put(7, { name: 'a', digest: 'x', source: Buffer.alloc(0), about: { tags: [], creator: '' } })
  await sql.run(`
    INSERT INTO character_versions (account, name, digest, source, created)
    SELECT 7, names.name, CAST(n AS TEXT), source, n
    FROM ${names} AS names, ${numbers} AS numbers, character_versions AS empty`)
  await sql.run(`
    INSERT INTO character_use (account, name, digest, bytes, uploaded, used)
    SELECT 7, name, CAST(n AS TEXT), 0, n, 1000 FROM ${names} AS names, ${numbers} AS numbers`)
  const places: (string | undefined)[] = []
  for (let after: CharacterKey | null = null, isLast = false; !isLast; ) {
    const step: Awaited<ReturnType<typeof characters.purge>> = await characters.purge(after, 500)
    places.push(step.after?.name)
    ;({ after, isLast } = step)
  }
  expect(places).toStrictEqual(['b', 'd', 'd'])
})

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
