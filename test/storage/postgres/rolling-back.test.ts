import postgres from 'postgres'
import { expect, it, onTestFinished } from 'vitest'
import { postgresMigrations } from '../../../src/storage/migrations.ts'
import { PostgresDatabase } from '../../../src/storage/postgres/database.ts'
import { migratePostgres } from '../../../src/storage/postgres/migrate.ts'
import { textOf } from '../../support/operations.ts'
import { newPostgresDatabase } from '../../support/shared-postgres.ts'

/** The schema of 0.1.0, as in a dump from before an upgrade. */
const older = postgresMigrations.slice(0, 2)

it('(r) the rollback of the handbook leaves no newer table, so that the next upgrade succeeds', async () => {
  const recipe = /^psql (--command='.*) "\$DATABASE_URL"$/m.exec(textOf('docs/operations.md'))?.[1] ?? ''
  const statements = [...recipe.matchAll(/--command='([^']+)'/g)].map(([, statement = '']) => statement)
  expect(statements.length).toBeGreaterThan(0)
  const url = await newPostgresDatabase()
  const database = new PostgresDatabase(url)
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  onTestFinished(async () => {
    await sql.end()
    await database.close()
  })
  const tables = async () => {
    const rows = await sql<{ name: string }[]>`SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'`
    return new Set(rows.map(({ name }) => name))
  }
  /** The statements of pg_restore for a dump of the older version, after its tables are dropped. */
  const restoreOlder = () => migratePostgres(database, older)
  await restoreOlder()
  const before = await tables()
  await migratePostgres(database)

  // `pg_restore --clean` drops only the tables of the dump.
  await sql.unsafe(`DROP TABLE ${[...before].join()} CASCADE`)
  await restoreOlder()
  await expect(migratePostgres(database)).rejects.toMatchObject({ code: '42P07' })

  for (const statement of statements) await sql.unsafe(statement)
  await restoreOlder()
  expect(await tables()).toStrictEqual(before)
  await migratePostgres(database)
  expect((await tables()).has('notices')).toBe(true)
})
