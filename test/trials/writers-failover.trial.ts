import { afterEach, expect, it } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { connectPostgres } from '../../src/storage/postgres/connect.ts'
import { PostgresDatabase, type Transaction } from '../../src/storage/postgres/database.ts'
import { PostgresGroupCommit } from '../../src/storage/postgres/group-commit.ts'
import { migratePostgres } from '../../src/storage/postgres/migrate.ts'
import { startPair, startStandby, tellRecoveries } from '../support/postgres.ts'

const rounds = Number(process.env['FAILOVER_ROUNDS'] ?? 2)
const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

it(
  'a failover neither loses nor duplicates an acknowledged row, and writes succeed again within 10 s',
  async () => {
    let { primary, standby } = await startPair()
    closing.push(() => Promise.all([primary.stop(), standby.stop()]).then(() => {}))
    const name = new URL(await primary.createDatabase()).pathname
    const recoveries: number[] = []
    let rowsThere = 0
    for (let round = 0; round < rounds; round++) {
      const url = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}${name}?target_session_attrs=read-write`
      const database = new PostgresDatabase(url)
      await migratePostgres(database)
      const writers = startWriters(database, `round${round}`)
      await writers.progress(100)
      await primary.kill()
      const killed = performance.now()
      await standby.promote()
      await writers.progress(100)
      recoveries.push(performance.now() - killed)
      expect(recoveries.at(-1)).toBeLessThan(10_000)
      const acknowledged = await writers.stop()
      rowsThere += acknowledged.length
      const rows = await database.read(
        (sql) => sql<{ key: string }[]>`SELECT name AS key FROM counters WHERE name LIKE ${`round${round}-%`}`,
      )
      expect(rows.map(({ key }) => key).toSorted()).toStrictEqual(acknowledged.toSorted())
      await database.close()
      await primary.stop()
      primary = standby
      standby = await startStandby(primary)
    }
    tellRecoveries('writers', recoveries, rowsThere)
  },
  30_000 * rounds,
)

it('commits that wait for a dead standby fail in time, and release their connections and their sessions on the server', async () => {
  const { primary, standby } = await startPair()
  closing.push(() => Promise.all([primary.stop(), standby.stop()]).then(() => {}))
  const database = await connectPostgres(await primary.createDatabase())
  closing.push(() => database.close())
  const insert = (key: string) => database.transaction((sql) => sql`INSERT INTO counters VALUES (${key}, 1)`)
  await standby.kill()
  const keys = Array.from({ length: 12 }, (_, number) => `waiting-${number}`)
  const faults = await Promise.all(keys.map((key) => insert(key).catch((error: unknown) => error)))
  const codes = faults.map((fault) => (fault instanceof ApiError ? fault.code : fault))
  // Seven writers had a connection and waited for the standby; five writers waited for a connection.
  expect(codes.toSorted()).toStrictEqual([
    ...Array.from({ length: 5 }, () => 'database_unavailable'),
    ...Array.from({ length: 7 }, () => 'write_unconfirmed'),
  ])
  const [one] = await database.read((sql) => sql<{ one: number }[]>`SELECT 1 AS one`)
  expect(one).toStrictEqual({ one: 1 })
  // The server ends the abandoned sessions, and keeps their writes.
  const waiting = () =>
    database.read((sql) => sql<{ pid: number }[]>`SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
  await expect.poll(async () => (await waiting()).length, { timeout: 10_000 }).toBe(0)
  const kept = await database.read((sql) => sql`SELECT name FROM counters WHERE name LIKE 'waiting-%'`)
  expect(kept.length).toBe(7)
  await standby.start()
  await insert('afterwards')
})

/** Starts writers that insert rows by key, and repeat each insert until it is acknowledged. */
function startWriters(database: PostgresDatabase, prefix: string) {
  const acknowledged: string[] = []
  const faults: unknown[] = []
  let isStopped = false
  const insertAll = async (sql: Transaction, keys: readonly string[]) => {
    for (const key of keys) await sql`INSERT INTO counters VALUES (${key}, 1) ON CONFLICT (name) DO NOTHING`
    return keys
  }
  const insert = (keys: readonly string[]) => database.transaction((sql) => insertAll(sql, keys))
  const groupCommit = new PostgresGroupCommit<string, string>(database, { commit: insertAll })
  const write = async (writer: number) => {
    for (let number = 0; !isStopped; number++) {
      const key = `${prefix}-${writer}-${number}`
      for (;;) {
        try {
          await (writer % 2 === 0 ? groupCommit.add(key) : insert([key]))
          acknowledged.push(key)
          break
        } catch (error) {
          if (!(error instanceof ApiError) || error.status !== 503) {
            faults.push(error)
            throw error
          }
        }
      }
    }
  }
  const running = Promise.all(Array.from({ length: 12 }, (_, writer) => write(writer)))
  running.catch(() => {})
  return {
    async progress(count: number) {
      const wanted = acknowledged.length + count
      const end = performance.now() + 20_000
      while (acknowledged.length < wanted && performance.now() < end && faults.length === 0)
        await new Promise((resolve) => setTimeout(resolve, 10))
      if (faults.length > 0) throw faults[0]
    },
    async stop() {
      isStopped = true
      await running
      return acknowledged
    },
  }
}
