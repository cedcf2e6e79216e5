import { setImmediate as turn } from 'node:timers/promises'
import Database from 'better-sqlite3'
import postgres from 'postgres'
import { expect, it, onTestFinished } from 'vitest'
import { type Metric, writeMetrics } from '../../src/instruments.ts'
import { PostgresPlantStore } from '../../src/plants/postgres.ts'
import { GroupCommit } from '../../src/storage/group-commit.ts'
import { PostgresDatabase } from '../../src/storage/postgres/database.ts'
import { duringRequest } from '../../src/storage/postgres/request-time.ts'
import { eventually } from '../support/eventually.ts'
import { parseMetrics, sumOf } from '../support/metrics.ts'
import { temporaryFolder } from '../support/service.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'

const patience = 20_000

/** Reads metrics as `/metrics` writes them. */
function reading(metrics: readonly Metric[]) {
  return (name: string, ...labels: readonly string[]) => sumOf(parseMetrics(writeMetrics(metrics)), name, ...labels)
}

/** A PostgreSQL database with our tables and three accounts, and a function that takes locks from another connection. */
async function scene() {
  const url = await newMigratedDatabase()
  const sql = postgres(url, { max: 2, onnotice: () => {} })
  const database = new PostgresDatabase(url, patience)
  onTestFinished(async () => {
    await sql.end({ timeout: 1 })
    await database.close(0)
  })
  await sql`INSERT INTO accounts (id, name, created) SELECT id, 'account ' || id, 0 FROM generate_series(1, 3) AS id`
  /** Runs a statement that locks. @returns a function that releases the lock */
  const hold = async (statement: string) => {
    const held = Promise.withResolvers<void>()
    const letGo = Promise.withResolvers<void>()
    const over = sql.begin(async (transaction) => {
      await transaction.unsafe(statement)
      held.resolve()
      await letGo.promise
    })
    await Promise.race([held.promise, over])
    return async () => {
      letGo.resolve()
      await over
    }
  }
  return { database, hold }
}

it('reports how many writes of plants wait over PostgreSQL, lanes included, and for how long', async () => {
  const { database, hold } = await scene()
  const store = new PostgresPlantStore(database)
  const read = reading(store.metrics)
  expect([read('conservatory_write_queue'), read('conservatory_write_queue_age_seconds')]).toEqual([0, 0])
  const letGo = await hold('SELECT id FROM accounts WHERE id = 1 FOR UPDATE')
  const writes = ['a', 'b', 'c'].map((name) => store.create(1, { name }))
  expect(read('conservatory_write_queue')).toBe(3)
  // A write of another account overtakes the three writes.
  await store.create(2, { name: 'd' })
  expect(read('conservatory_write_queue')).toBe(3)
  const before = read('conservatory_write_queue_age_seconds')
  await eventually(async () => expect(read('conservatory_write_queue_age_seconds')).toBeGreaterThan(before + 0.01))
  await letGo()
  await Promise.all(writes)
  expect([read('conservatory_write_queue'), read('conservatory_write_queue_age_seconds')]).toEqual([0, 0])
})

it('reports how many writes wait over SQLite for another program, and the duration of the commit with that wait', async () => {
  const folder = temporaryFolder()
  const file = `${folder.path}/notes.db`
  const [own, other] = [new Database(file, { timeout: 0 }), new Database(file)]
  onTestFinished(() => {
    own.close()
    other.close()
    folder.remove()
  })
  own.exec('CREATE TABLE notes (text TEXT) STRICT')
  const commit = new GroupCommit(own)
  const read = reading(commit.metrics)
  const labels = ['db_system_name="sqlite"', 'db_operation_name="write"']
  const count = () => read('db_client_operation_duration_seconds_count', ...labels)
  other.exec('BEGIN IMMEDIATE')
  const writes = ['a', 'b'].map((text) => commit.run(() => own.prepare('INSERT INTO notes VALUES (?)').run(text)))
  await turn()
  await turn()
  const began = performance.now()
  expect([read('conservatory_write_queue'), count()]).toEqual([2, 0])
  await eventually(async () => expect(read('conservatory_write_queue_age_seconds')).toBeGreaterThan(0.2))
  const waited = (performance.now() - began) / 1000
  other.exec('COMMIT')
  await Promise.all(writes)
  expect([read('conservatory_write_queue'), read('conservatory_write_queue_age_seconds')]).toEqual([0, 0])
  // Both writes shared one commit, whose duration includes the wait.
  expect(count()).toBe(1)
  expect(read('db_client_operation_duration_seconds_sum', ...labels)).toBeGreaterThan(waited)
})

it('reports used connections to PostgreSQL, their maximum, how many operations wait for a connection, and the durations', async () => {
  const { database, hold } = await scene()
  const read = reading(database.metrics)
  const uses = () =>
    ['reads', 'lanes', 'others'].map((pool) =>
      ['count', 'pending_requests', 'max'].map((what) => read(`db_client_connection_${what}`, `pool_name="${pool}"`)),
    )
  const times = (operation: string) => read('db_client_operation_duration_seconds_count', `name="${operation}"`)
  const idle = [
    [0, 0, 5],
    [0, 0, 3],
    [0, 0, 7],
  ]
  expect(uses()).toEqual(idle)
  const letGo = await hold('SELECT pg_advisory_xact_lock(1)')
  const [readsBefore, writesBefore] = [times('read'), times('write')]
  const took = () => read('db_client_operation_duration_seconds_sum', 'db_system_name="postgresql"')
  const tookBefore = took()
  const began = performance.now()
  const work: Promise<unknown>[] = Array.from({ length: 7 }, () =>
    database.read((sql) => sql`SELECT pg_advisory_xact_lock_shared(1)`),
  )
  const change = (account: number) =>
    duringRequest({ account: () => account, isAnswered: () => false }, () =>
      database.transaction((sql) => sql`SELECT pg_advisory_xact_lock_shared(1)`),
    )
  // One account gets at most two connections.
  work.push(change(1), change(1), change(1), change(2))
  work.push(database.transaction((sql) => sql`SELECT pg_advisory_xact_lock_shared(1)`, patience, { lane: {} }))
  expect(uses()).toEqual([
    [5, 2, 5],
    [1, 0, 3],
    [3, 1, 7],
  ])
  expect([times('read') - readsBefore, times('write') - writesBefore]).toEqual([0, 0])
  await letGo()
  await Promise.all(work)
  expect(uses()).toEqual(idle)
  expect([times('read') - readsBefore, times('write') - writesBefore]).toEqual([7, 5])
  expect(took()).toBeGreaterThan(tookBefore)
  expect(took() - tookBefore).toBeLessThan((12 * (performance.now() - began)) / 1000)
})

it('includes failed operations in the durations', async () => {
  const { database } = await scene()
  const read = reading(database.metrics)
  const times = (operation: string) => read('db_client_operation_duration_seconds_count', `name="${operation}"`)
  const before = times('read') + times('write')
  await expect(database.read((sql) => sql`SELECT 1 / 0`)).rejects.toThrow()
  await expect(database.transaction((sql) => sql`SELECT 1 / 0`)).rejects.toThrow()
  expect(times('read') + times('write') - before).toBe(2)
  expect(read('db_client_connection_count')).toBe(0)
})
