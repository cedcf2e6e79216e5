import postgres from 'postgres'
import { expect, it, onTestFinished } from 'vitest'
import { connectPostgres } from '../../../src/storage/postgres/connect.ts'
import { PostgresDatabase } from '../../../src/storage/postgres/database.ts'
import { newPostgresDatabase } from '../../support/shared-postgres.ts'

it('(y) every text in an index is ordered by its bytes, whatever the collation of the operating system', async () => {
  const url = await newPostgresDatabase()
  await (await connectPostgres(url)).close()
  const sql = postgres(url, { max: 1 })
  const indexed = await sql<{ place: string; collation: string }[]>`
    SELECT DISTINCT relname || '.' || attname AS place, collname AS collation
    FROM pg_index
    JOIN pg_class ON pg_class.oid = indrelid AND relnamespace = 'public'::regnamespace
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
    JOIN pg_collation ON pg_collation.oid = attcollation`
  await sql.end()
  expect(indexed.length).toBeGreaterThan(20)
  expect(indexed.filter(({ collation }) => collation !== 'C').map(({ place }) => place)).toStrictEqual([])
})

it('(y) a transaction is retried when a migration has changed the columns of its prepared statements', async () => {
  const database = new PostgresDatabase(await newPostgresDatabase())
  onTestFinished(() => database.close())
  await database.transaction((sql) => sql`CREATE TABLE texts (text TEXT)`)
  await database.transaction((sql) => sql`INSERT INTO texts VALUES ('kept')`)
  const readOnce = () =>
    database.transaction((sql) => sql<{ text: string }[]>`SELECT text FROM texts WHERE text > ${''}`)
  // Ten transactions prepare the statement on all connections of transactions.
  const readAll = () => Promise.all(Array.from({ length: 10 }, readOnce))
  const before = await readAll()
  await database.transaction((sql) => sql`ALTER TABLE texts ALTER COLUMN text TYPE TEXT COLLATE "C"`)
  expect(await readAll()).toStrictEqual(before)
})
