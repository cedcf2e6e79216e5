import { expect, it, onTestFinished } from 'vitest'
import { PostgresCharacterStore } from '../../../src/characters/postgres.ts'
import { postgresMigrations } from '../../../src/storage/migrations.ts'
import { PostgresDatabase } from '../../../src/storage/postgres/database.ts'
import { migratePostgres } from '../../../src/storage/postgres/migrate.ts'
import { unixSeconds } from '../../../src/time.ts'
import { newPostgresDatabase } from '../../support/shared-postgres.ts'

it('existing versions count as used on the day of the migration; the next purge adds the rows of an older replica’s versions', async () => {
  const database = new PostgresDatabase(await newPostgresDatabase())
  onTestFinished(() => database.close())
  await migratePostgres(
    database,
    postgresMigrations.filter(({ name }) => name < '0004'),
  )
  const upload = (digest: string) =>
    database.read((sql) => sql`INSERT INTO character_versions VALUES (1, 'Fern', ${digest}, ${Buffer.alloc(3)}, 7)`)
  await database.read((sql) => sql`INSERT INTO accounts (id, name, created) VALUES (1, 'ann', 0)`)
  await database.read((sql) => sql`INSERT INTO characters VALUES (1, 'Fern', 'fern', 'a', '{}', 0, 0)`)
  await upload('a')
  const begin = unixSeconds()
  await migratePostgres(database)
  await upload('b')
  const rows = () =>
    database.read(
      (sql) => sql<{ digest: string; bytes: number; used: number | null }[]>`
        SELECT digest, bytes, uploaded, used FROM character_use ORDER BY digest`,
    )
  const [before] = await rows()
  expect(before?.used).toBeGreaterThanOrEqual(begin - 1)
  const store = new PostgresCharacterStore(database)
  expect(await store.purge(null, begin)).toMatchObject({ removed: [], after: { account: 1, name: 'Fern' } })
  expect([...(await rows())]).toEqual([before, { digest: 'b', bytes: 3, uploaded: 7, used: null }])
})
