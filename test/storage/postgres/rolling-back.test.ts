import postgres from 'postgres'
import { expect, it, onTestFinished } from 'vitest'
import { PostgresDatabase } from '../../../src/storage/postgres/database.ts'
import { migratePostgres } from '../../../src/storage/postgres/migrate.ts'
import { postgresMigrations } from '../../../src/storage/postgres/migrations.ts'
import { textOf } from '../../support/operations.ts'
import { newPostgresDatabase } from '../../support/shared-postgres.ts'

/** The schema of 0.1.0, which a dump from before an upgrade has. */
const older = postgresMigrations.slice(0, 2)

it('(r) rolling back by the handbook leaves no newer table, so that the next upgrade goes through', async () => {
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
  /** What pg_restore makes of a dump of the older version, once its tables are out of the way. */
  const restoreOlder = () => migratePostgres(database, older)
  await restoreOlder()
  const before = await tables()
  await migratePostgres(database)

  // As `pg_restore --clean` does it: what the dump has goes, and nothing else.
  await sql.unsafe(`DROP TABLE ${[...before].join()} CASCADE`)
  await restoreOlder()
  await expect(migratePostgres(database)).rejects.toMatchObject({ code: '42P07' })

  for (const statement of statements) await sql.unsafe(statement)
  await restoreOlder()
  expect(await tables()).toStrictEqual(before)
  await migratePostgres(database)
  expect((await tables()).has('notices')).toBe(true)
})
