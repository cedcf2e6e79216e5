import postgres from 'postgres'
import { afterAll, beforeAll, expect, it } from 'vitest'
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
