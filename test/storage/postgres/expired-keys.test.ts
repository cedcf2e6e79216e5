import postgres from 'postgres'
import { expect, it, onTestFinished } from 'vitest'
import { PostgresPlantStore } from '../../../src/plants/postgres.ts'
import { connectPostgres } from '../../../src/storage/postgres/connect.ts'
import { newPostgresDatabase } from '../../support/shared-postgres.ts'

it('(n) a locked expired key is skipped, and removed by a later search', async () => {
  const url = await newPostgresDatabase()
  const database = await connectPostgres(url)
  const other = postgres(url, { max: 1 })
  onTestFinished(async () => {
    await other.end()
    await database.close()
  })
  await database.transaction(async (sql) => {
    await sql`INSERT INTO accounts (id, name, created) VALUES (1, 'ann', 0)`
    await sql`
      INSERT INTO idempotency_keys (account, key, request, plant, name, created)
      SELECT 1, 'key ' || n, 'r', n, 'Fern', n FROM generate_series(1, 5) AS numbers (n)`
  })
  const store = new PostgresPlantStore(database)
  const search = async () => {
    const counts: number[] = []
    do counts.push(await store.removeExpiredKeys(5, 2))
    while (counts.at(-1) !== 0)
    return counts
  }
  await other.begin(async (sql) => {
    await sql`SELECT key FROM idempotency_keys WHERE key = 'key 1' FOR UPDATE`
    expect(await search()).toEqual([2, 1, 0])
  })
  expect(await search()).toEqual([1, 0])
})
