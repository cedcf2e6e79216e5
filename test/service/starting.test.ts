import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, it, onTestFinished } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { startPostgres } from '../support/postgres.ts'
import { folderForThisTest } from '../support/preset-service.ts'
import { startSpawned } from '../support/process.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'

/** Starts a service that may have to wait. It ends with the running test. */
async function begin(environment: Readonly<Record<string, string>>) {
  const { service, listening } = await startSpawned(process.execPath, ['src/main.ts'], {
    environment: { LOG_LEVEL: 'silent', ...environment },
  })
  onTestFinished(service.close)
  // Whoever expects it to end looks at how.
  listening.catch(() => {})
  const waits = () => eventually(() => expect(service.stderr()).toContain('The start waits for it'))
  return { ...service, listening, waits, told: () => service.stderr().split('The start waits for it').length - 1 }
}

it('(s) a start waits for its PostgreSQL, says so once, and serves when that is up', async () => {
  const server = await startPostgres()
  onTestFinished(() => server.stop())
  const url = await server.createDatabase()
  await server.end()
  const service = await begin({ DATABASE_URL: url, START_TIMEOUT: '3600' })
  await service.waits()
  await server.start()
  expect((await fetch(`${(await service.listening).url}/readyz`)).status).toBe(200)
  expect(service.told()).toBe(1)
  expect(service.stderr()).toMatch(/^The database at 127\.0\.0\.1:\d+ refuses the connection: .* 3600 seconds at most/)
}, 60_000)

it('(s) a start whose PostgreSQL does not come in time ends with exit code 1 and its host', async () => {
  const service = await begin({ DATABASE_URL: 'postgres://gardener:secret@127.0.0.1:1/plants', START_TIMEOUT: '6' })
  expect(await service.exited).toBe(1)
  expect(service.told()).toBe(1)
  expect(service.stderr().trimEnd().split('\n').at(-1)).toMatch(
    /^The database at 127\.0\.0\.1:1 refuses the connection/,
  )
  expect(service.stderr()).not.toMatch(/gardener|secret/)
}, 60_000)

it('(s) a start that would wait for nothing does not wait: no such database or role', async () => {
  const here = new URL(await newPostgresDatabase())
  const [database, role] = [new URL(here), new URL(here)]
  database.pathname = '/nothing_here'
  role.username = 'nobody_here'
  const services = await Promise.all(
    [database, role].map(({ href }) => begin({ DATABASE_URL: href, START_TIMEOUT: '3600' })),
  )
  expect(await Promise.all(services.map(({ exited }) => exited))).toEqual([1, 1])
  expect(services.map(({ told }) => told())).toEqual([0, 0])
})

it('(s) a start that waits ends at once at SIGTERM', async () => {
  const service = await begin({ DATABASE_URL: 'postgres://one@127.0.0.1:1/plants', START_TIMEOUT: '3600' })
  await service.waits()
  service.process.kill('SIGTERM')
  expect(await service.exited).toBe(1)
}, 60_000)

it('(s) over SQLite a start waits for a data folder that another service holds, and for a file that another program does', async () => {
  const folder = folderForThisTest()
  const before = await begin({ DATA_DIR: folder })
  await before.listening
  const after = await begin({ DATA_DIR: folder, START_TIMEOUT: '3600' })
  await after.waits()
  expect(after.stderr()).toContain('Another service uses the data folder')
  before.process.kill('SIGTERM')
  await after.listening
  expect(after.told()).toBe(1)
  after.process.kill('SIGTERM')
  await after.exited

  const database = new Database(join(folder, 'conservatory.db'))
  database.pragma('locking_mode = EXCLUSIVE')
  database.exec('BEGIN EXCLUSIVE')
  const held = await begin({ DATA_DIR: folder, START_TIMEOUT: '3600' })
  await held.waits()
  expect(held.stderr()).toContain('conservatory.db is held by another program.')
  database.close()
  await held.listening
}, 60_000)
