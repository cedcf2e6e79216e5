import { createServer } from 'node:net'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { StorageError } from '../../../src/errors.ts'
import { connectPostgres } from '../../../src/storage/postgres/connect.ts'
import { checkPostgres } from '../../../src/storage/postgres/migrate.ts'
import { openPostgresStores } from '../../../src/stores/postgres.ts'
import { Metering } from '../../../src/usage/metered-request.ts'
import { eventually } from '../../support/eventually.ts'
import { keyOf } from '../../support/limits.ts'
import { type PostgresServer, startPostgres } from '../../support/postgres.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

it.concurrent.each([
  [
    'cannot be reached',
    'postgres://gardener:secret@127.0.0.1:1/plants',
    'The database at 127.0.0.1:1 refuses the connection',
  ],
  ['has two dead hosts', 'postgres://gardener:secret@127.0.0.1:1,127.0.0.1:2/plants', '127.0.0.1:1,127.0.0.1:2'],
  ['has an unknown host', 'postgres://gardener:secret@nowhere.invalid/plants', 'nowhere.invalid'],
  ['has a password with an @', 'postgres://gardener:sec@ret@127.0.0.1:1/plants', '127.0.0.1:1 '],
  ['has an @ behind its host', 'postgres://gardener:secret@127.0.0.1:1/plants?application_name=a@b', '127.0.0.1:1 '],
  ['is no URL', 'postgres://gardener:secret@[::/plants', ''],
])('a database whose address %s is reported in one line, without the password', async (_, url, wanted) => {
  const fault = await connectPostgres(url).catch((error: unknown) => error)
  expect(fault).toBeInstanceOf(StorageError)
  const text = String(fault)
  expect(text).toContain(wanted)
  expect(text).not.toMatch(/gardener|sec@?ret|ret@|\n/)
})

it('an unknown user or database is reported with what to do', async () => {
  const here = `127.0.0.1:${server.port}`
  await expect(connectPostgres(`postgres://gardener:secret@${here}/postgres`)).rejects.toThrow(
    `The database at ${here} has no role of this name`,
  )
  await expect(connectPostgres(server.url('nothing'))).rejects.toThrow(`The database at ${here} has no database`)
})

it.concurrent('a connection to a server that accepts it and never answers times out', async () => {
  const silent = createServer((socket) => socket.on('error', () => {}).resume())
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const address = silent.address()
  const port = typeof address === 'object' ? address?.port : undefined
  await expect(connectPostgres(`postgres://one@127.0.0.1:${port}/plants`)).rejects.toThrow(`127.0.0.1:${port}`)
  await new Promise((resolve) => silent.close(resolve))
})

it('a database that stops, or loses a column, causes a 503, and is used again once it is repaired', async () => {
  const url = await server.createDatabase()
  const database = await connectPostgres(url)
  await checkPostgres(database)
  await server.kill()
  await expect(checkPostgres(database)).rejects.toMatchObject({ status: 503, code: 'database_unavailable' })
  await server.start()
  await checkPostgres(database)
  const other = postgres(url, { max: 1 })
  await other`ALTER TABLE plants DROP COLUMN tag`
  await expect(checkPostgres(database)).rejects.toThrow('plants.tag missing')
  await expect(database.read((sql) => sql`SELECT tag FROM plants`)).rejects.toMatchObject({ status: 503 })
  await other`ALTER TABLE plants ADD COLUMN tag TEXT`
  await checkPostgres(database)
  const name = other(new URL(url).pathname.slice(1))
  const endOthers = () => other`
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
  await other`ALTER DATABASE ${name} SET default_transaction_read_only = on`
  await endOthers()
  await expect(checkPostgres(database)).rejects.toThrow('only reads')
  await other`ALTER DATABASE ${name} RESET default_transaction_read_only`
  await endOthers()
  await checkPostgres(database)
  await other.end()
  await database.close()
})

it('the usage of a request that ends while the database is stopped is recorded afterwards', async () => {
  const stores = await openPostgresStores(await server.createDatabase())
  const limiter = stores.limiter({ tokens_per_day: 1000 })
  const key = keyOf('one', (await stores.access.createAccount('ann')).id)
  const metering = new Metering({ limiter, ledger: stores.ledger, onFailure: () => {} })
  const request = { id: 'req_1', key, model: 'm', character: null, promptTokens: () => 500, replyTokens: () => 400 }
  const metered = await metering.enter(request)
  metered.meter.setUsage({ prompt_tokens: 500, completion_tokens: 400 }, true)
  await server.kill()
  await metered.end('stop')
  await server.start()
  await eventually(async () => {
    expect(await stores.usage.find(key.account.id, 'req_1')).toMatchObject({ state: 'stop' })
    await expect(limiter.reserve(key, () => 900)).rejects.toMatchObject({ status: 429 })
  })
  await stores.close()
})
