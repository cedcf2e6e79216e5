import postgres from 'postgres'
import { expect, it, onTestFinished } from 'vitest'
import { PostgresPlantStore } from '../../../src/plants/postgres.ts'
import { PostgresDatabase } from '../../../src/storage/postgres/database.ts'
import { textOf } from '../../support/operations.ts'
import { newMigratedDatabase } from '../../support/shared-postgres.ts'

async function scene() {
  const url = await newMigratedDatabase()
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  const database = new PostgresDatabase(url)
  onTestFinished(async () => {
    await sql.end({ timeout: 1 })
    await database.close(0)
  })
  return { sql, store: new PostgresPlantStore(database) }
}

it('PostgreSQL understands every statement of the runbook', async () => {
  const runbook = textOf('docs/night.md')
  const statements = [...runbook.matchAll(/`(SELECT [^`]+)`/g)].map(([, statement = '']) => statement)
  expect(statements.length).toBeGreaterThan(4)
  const { sql } = await scene()
  // EXPLAIN parses a statement, and does not execute it.
  for (const statement of statements) await sql.unsafe(`EXPLAIN ${statement.replace(/\bPID\b/, '1')}`)
})

it('a full disk of PostgreSQL refuses writes with 507; reads go on, and writes succeed again once there is space', async () => {
  const { sql, store } = await scene()
  await sql`INSERT INTO accounts (id, name, created) VALUES (1, 'account', 0)`
  await store.create(1, { name: 'before' })
  await sql.unsafe(`
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON plants FOR EACH ROW EXECUTE FUNCTION full_disk()`)
  await expect(store.create(1, { name: 'during' })).rejects.toMatchObject({ status: 507, code: 'disk_full' })
  expect((await store.find(1, 1))?.name).toBe('before')
  await sql`DROP TRIGGER full_disk ON plants`
  expect(await store.create(1, { name: 'after' })).toMatchObject({ plant: { name: 'after' } })
})
