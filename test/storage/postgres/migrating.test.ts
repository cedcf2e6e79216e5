import { expect, it, onTestFinished, vi } from 'vitest'
import { toApiError } from '../../../src/errors.ts'
import { postgresMigrations } from '../../../src/storage/migrations.ts'
import { PostgresDatabase } from '../../../src/storage/postgres/database.ts'
import { migratePostgres } from '../../../src/storage/postgres/migrate.ts'
import { startPostgres } from '../../support/postgres.ts'
import { newPostgresDatabase } from '../../support/shared-postgres.ts'

/** The time limit of a request. It is shorter than the migration of the first test. */
const requestTimeoutMs = 300
const timesWith = (tell: (sentence: string) => void) => ({
  timeoutMs: 60_000,
  noticeAfterMs: 400,
  checkIntervalMs: 100,
  tell,
})

function openBriefly(url: string, timeoutMs = requestTimeoutMs): PostgresDatabase {
  const database = new PostgresDatabase(url, timeoutMs)
  onTestFinished(() => database.close(0))
  return database
}

it('(m) a migration may take longer than a request, and replicas that start meanwhile report that and wait for it', async () => {
  const url = await newPostgresDatabase()
  const [first, second] = [openBriefly(url), openBriefly(url)]
  await migratePostgres(first)
  const history = [
    ...postgresMigrations,
    { name: '9999-slow', sql: 'ALTER TABLE migrations ADD COLUMN slow TEXT; SELECT pg_sleep(1.2);' },
  ]
  const [tellFirst, tellSecond] = [vi.fn(), vi.fn()]
  const migrated = migratePostgres(first, history, undefined, timesWith(tellFirst))
  await vi.waitFor(async () => {
    const locks = await second.read(
      (sql) => sql`SELECT pid FROM pg_locks WHERE relation = 'migrations'::regclass AND mode = 'AccessExclusiveLock'`,
    )
    expect(locks).toHaveLength(1)
  })
  await Promise.all([migrated, migratePostgres(second, history, undefined, timesWith(tellSecond))])
  expect(tellFirst.mock.calls).toEqual([[expect.stringMatching(/^The tables of .+ are being brought up to date\./)]])
  expect(tellSecond.mock.calls).toEqual([[expect.stringMatching(/^Another replica is bringing .+ Waiting for it\.$/)]])
  const rows = await second.read((sql) => sql`SELECT name FROM migrations WHERE name = '9999-slow'`)
  expect(rows).toHaveLength(1)
})

it('(m) a migration fails soon after the database stops, long before the time limit of the migration', async () => {
  const server = await startPostgres()
  onTestFinished(() => server.stop())
  // On a busy machine, the first request to a new server may take longer than `requestTimeoutMs`.
  const database = openBriefly(await server.createDatabase(), 3000)
  await migratePostgres(database)
  const history = [...postgresMigrations, { name: '9999-slow', sql: 'SELECT pg_sleep(600);' }]
  const notice = Promise.withResolvers<string>()
  const migrating = migratePostgres(database, history, undefined, timesWith(notice.resolve)).catch(toApiError)
  await notice.promise
  await server.stop()
  expect(await migrating).toMatchObject({ status: 503, code: 'database_unavailable' })
})
