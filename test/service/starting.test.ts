import { expect, it, onTestFinished } from 'vitest'
import { startPostgres } from '../support/postgres.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'
import { begin } from '../support/waiting-start.ts'

it('(s) a start waits for its PostgreSQL, says so once, and serves when PostgreSQL is up', async () => {
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

it('(s) a start whose PostgreSQL is not up in time ends with exit code 1, and names the host', async () => {
  const service = await begin({ DATABASE_URL: 'postgres://gardener:secret@127.0.0.1:1/plants', START_TIMEOUT: '6' })
  expect(await service.exited).toBe(1)
  expect(service.told()).toBe(1)
  expect(service.stderr().trimEnd().split('\n').at(-1)).toMatch(
    /^The database at 127\.0\.0\.1:1 refuses the connection/,
  )
  expect(service.stderr()).not.toMatch(/gardener|secret/)
}, 60_000)

it('(s) a start does not wait for a database that does not exist', async () => {
  const url = new URL(await newPostgresDatabase())
  url.pathname = '/nothing_here'
  const service = await begin({ DATABASE_URL: url.href, START_TIMEOUT: '3600' })
  expect(await service.exited).toBe(1)
  expect([service.told(), service.stderr()]).toEqual([0, expect.stringContaining('has no database of this name.')])
})

it('(s) a start that waits ends at once at SIGTERM', async () => {
  const service = await begin({ DATABASE_URL: 'postgres://one@127.0.0.1:1/plants', START_TIMEOUT: '3600' })
  await service.waits()
  service.process.kill('SIGTERM')
  expect(await service.exited).toBe(1)
}, 60_000)
