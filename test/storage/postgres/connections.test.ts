import { setTimeout as wait } from 'node:timers/promises'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { PostgresAccessStore } from '../../../src/access/postgres.ts'
import { PostgresCounts } from '../../../src/limits/postgres.ts'
import { PostgresPlantStore } from '../../../src/plants/postgres.ts'
import { maxConnections, PostgresDatabase } from '../../../src/storage/postgres/database.ts'
import { migratePostgres } from '../../../src/storage/postgres/migrate.ts'
import { livingReplicas, Replica } from '../../../src/storage/postgres/replicas.ts'
import { duringRequest, outsideRequest } from '../../../src/storage/postgres/request-time.ts'
import { eventually } from '../../support/eventually.ts'
import { startFakePostgres } from '../../support/fake-postgres.ts'
import { eachPage } from '../../support/plant-pages.ts'
import { type PostgresServer, startPostgres } from '../../support/postgres.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

/** Makes commits wait for a standby that never answers, or ends this. */
async function freezeStandby(sql: postgres.Sql, isFrozen: boolean): Promise<void> {
  await sql.unsafe(
    isFrozen ? "ALTER SYSTEM SET synchronous_standby_names = 'frozen'" : 'ALTER SYSTEM RESET synchronous_standby_names',
  )
  await sql`SELECT pg_reload_conf()`
  const expected = isFrozen ? 'frozen' : ''
  await eventually(async () => {
    const [row] = await sql`SHOW synchronous_standby_names`
    expect(row?.['synchronous_standby_names']).toBe(expected)
  })
}

/** A database with our tables, ten accounts and 2,000 plants, and a second connection to observe it. */
async function scene(patience: number) {
  const url = await server.createDatabase()
  const sql = postgres(url, { max: 2, onnotice: () => {} })
  const database = new PostgresDatabase(url, patience)
  onTestFinished(async () => {
    await freezeStandby(sql, false)
    await sql.end({ timeout: 1 })
    await database.close(0)
  })
  await migratePostgres(database)
  await sql`INSERT INTO accounts (id, name, created) SELECT id, 'account ' || id, 0 FROM generate_series(1, 10) AS id`
  await sql`INSERT INTO plants (account, id, name) SELECT 1, id, 'plant' FROM generate_series(1, 2000) AS id`
  const connections = async (condition = '') => {
    const rows = await sql.unsafe(`
      SELECT pid FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'conservatory' ${condition}`)
    return rows.length
  }
  const share = (owner: number, tag: string) =>
    duringRequest({ account: () => owner, isAnswered: () => false }, () =>
      database.transaction(
        (transaction) => transaction`
          INSERT INTO grants (owner, grantee, tag, created) VALUES (${owner}, 10, ${tag}, 0) ON CONFLICT DO NOTHING`,
      ),
    )
  return { sql, database, store: new PostgresPlantStore(database), connections, share }
}

it('(k) a frozen standby delays commits, but no reads', async () => {
  const { sql, database, store, connections, share } = await scene(20_000)
  await freezeStandby(sql, true)
  let answered = 0
  const settled = () => void answered++
  const writes = [
    ...Array.from({ length: 10 }, (_, index) => store.create(index + 1, { name: 'a' })),
    ...Array.from({ length: 40 }, (_, index) => share((index % 9) + 1, `${index}`)),
  ]
  for (const write of writes) write.then(settled, settled)
  // Eight commits wait, so no connection for these writes is free: new plants have one connection, and shares have seven.
  await eventually(async () => expect(await connections("AND wait_event = 'SyncRep'")).toBeGreaterThanOrEqual(8))
  // Each process of the server reloads the setting at its own time, so some commits may have been done before.
  const before = answered
  for (let times = 0; times < 50; times++) {
    expect(await store.find(1, 1 + times)).toMatchObject({ name: 'plant' })
    expect((await store.list(1, {}, 10)).json).toContain('plant')
  }
  expect(answered).toBe(before)
  await freezeStandby(sql, false)
  await Promise.all(writes)
  expect(await database.read((reading) => reading`SELECT tag FROM grants`)).toHaveLength(40)
})

it('(k) commits that wait for a frozen standby are answered as unconfirmed in time, and ended on the server', async () => {
  const { sql, store, connections } = await scene(1000)
  await freezeStandby(sql, true)
  let began = performance.now()
  const commits = async () => {
    for (; ; began = performance.now()) await store.create(1, { name: 'a' })
  }
  await expect(commits()).rejects.toMatchObject({ status: 503, code: 'write_unconfirmed' })
  // `began` is the time at which the unconfirmed commit began, and the time limit is one second.
  expect(performance.now() - began).toBeLessThan(2000)
  await eventually(async () => expect(await connections("AND wait_event = 'SyncRep'")).toBe(0))
})

it('(k) the counts of limits, the last uses of keys and the heartbeats of replicas do not wait for a standby', async () => {
  const { sql, database: before } = await scene(20_000)
  const { key } = await new PostgresAccessStore(before).createKey({ account: 'account 1', scopes: ['plants:read'] })
  await freezeStandby(sql, true)
  const [{ name } = { name: '' }] = await sql<{ name: string }[]>`SELECT current_database() AS name`
  const database = new PostgresDatabase(server.url(name), 2000)
  onTestFinished(() => database.close(0))
  await expect(new PostgresPlantStore(database).create(1, { name: 'a' })).rejects.toMatchObject({ status: 503 })
  const counts = new PostgresCounts(database)
  expect(await counts.take(['key:1', 'account:1'], () => 'taken')).toBe('taken')
  await new PostgresAccessStore(database).noteUses(new Map([[key.id, 1]]))
  const replica = new Replica(database, async () => undefined)
  await replica.live()
  expect(await database.read(livingReplicas)).toEqual([{ id: replica.id }])
  await freezeStandby(sql, false)
  await replica.leave()
})

it('(k) after a connection has ended, the next goes to the host that answered, not to a standby that does not answer', async () => {
  const { sql } = await scene(20_000)
  const frozen = await startFakePostgres(() => {})
  onTestFinished(() => frozen.close())
  const [{ name } = { name: '' }] = await sql<{ name: string }[]>`SELECT current_database() AS name`
  const url = `postgres://postgres@127.0.0.1:${server.port},${frozen.place}/${name}?target_session_attrs=read-write`
  const database = new PostgresDatabase(url)
  onTestFinished(() => database.close(0))
  const read = () => database.read((reading) => reading`SELECT pg_backend_pid() AS pid`)
  const write = () => database.transaction((writing) => writing`SELECT pg_backend_pid() AS pid`)
  for (let times = 0; times < 3; times++) {
    const rows = await Promise.all([read(), read(), write(), write()])
    const pids = rows.flatMap(([row]) => Number(row?.['pid']))
    // Ends all connections, as a server, an operator or the idle timeout does. Reads and writes have separate connections.
    for (const pid of pids) await sql`SELECT pg_terminate_backend(${pid})`
    await eventually(async () => {
      const left = await sql`SELECT pid FROM pg_stat_activity WHERE pid = ANY (${pids}::int[])`
      expect(left).toHaveLength(0)
    })
  }
  expect(frozen.connections()).toBe(0)
})

it('(j) a write that waits for a lock times out as not written, and no other commit that waits for a standby is ended', async () => {
  const { sql, database, store, connections } = await scene(4000)
  const held = Promise.withResolvers<void>()
  const ending = Promise.withResolvers<void>()
  const holding = sql.begin(async (transaction) => {
    await transaction`SELECT id FROM accounts WHERE id = 1 FOR UPDATE`
    held.resolve()
    await ending.promise
  })
  await held.promise
  const { late, other } = await duringRequest({ account: () => 1, isAnswered: () => false }, async () => {
    await database.read((reading) => reading`SELECT pg_sleep(2.5)`)
    await freezeStandby(sql, true)
    const late = store.create(1, { name: 'late' })
    return { late, other: outsideRequest(() => store.create(2, { name: 'other' })) }
  })
  const lateEnd = expect(late).rejects.toMatchObject({ code: 'database_unavailable' })
  await eventually(async () => expect(await connections("AND wait_event = 'SyncRep'")).toBe(1))
  await lateEnd
  await freezeStandby(sql, false)
  expect((await other).plant.name).toBe('other')
  ending.resolve()
  await holding
  expect(await sql`SELECT name FROM plants WHERE name = 'late'`).toEqual([])
})

it('(t) one constant bounds all connections under any load', async () => {
  const { sql, database, store, connections, share } = await scene(1500)
  let isOver = false
  const samples: number[] = []
  const counting = (async () => {
    for (; !isOver; await wait(5)) samples.push(await connections())
  })()
  counting.catch(() => undefined)
  const isUnavailable = (error: unknown) => expect(error).toMatchObject({ status: 503 })
  const load = async () => {
    const lists = Array.from({ length: 20 }, async () => {
      for await (const page of store.listLong(1, {}, eachPage)) expect(page.json).toContain('plant')
    })
    const reads = Array.from({ length: 100 }, () => database.read((reading) => reading`SELECT pg_sleep(0.01)`))
    const writes = Array.from({ length: 60 }, (_, index) =>
      index % 2 ? share((index % 9) + 1, `${Math.random()}`) : store.create((index % 9) + 1, { name: 'plant' }),
    )
    await Promise.all([...lists, ...reads, ...writes.map((write) => Promise.resolve(write).catch(isUnavailable))])
  }
  await load()
  await freezeStandby(sql, true)
  // With three rounds, abandoned work of one round still has connections when the next round begins.
  for (let times = 0; times < 3; times++) await load()
  await freezeStandby(sql, false)
  await load()
  isOver = true
  await counting
  expect(maxConnections).toBe(15)
  // Each value is a sample, so the real number may be higher.
  expect(Math.max(...samples)).toBeGreaterThan(10)
  expect(Math.max(...samples)).toBeLessThanOrEqual(maxConnections)
})

it('(q) a slow reader of a long list keeps no connection and no snapshot', async () => {
  const { store, connections } = await scene(5000)
  const readers = Array.from({ length: 8 }, () => store.listLong(1, {}, eachPage)[Symbol.asyncIterator]())
  for (const reader of readers) expect((await reader.next()).done).toBe(false)
  expect(await connections("AND (state <> 'idle' OR backend_xmin IS NOT NULL)")).toBe(0)
  expect((await store.create(1, { name: 'a' })).plant.id).toBe(2001)
  for (const reader of readers) await reader.return?.()
})
