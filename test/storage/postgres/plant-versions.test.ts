import { expect, it, onTestFinished } from 'vitest'
import { PostgresPlantStore } from '../../../src/plants/postgres.ts'
import { connectPostgres } from '../../../src/storage/postgres/connect.ts'
import { Replica } from '../../../src/storage/postgres/replicas.ts'
import { eventually } from '../../support/eventually.ts'
import { newPostgresDatabase } from '../../support/shared-postgres.ts'

it('(y) no version is valid while a replica of the previous release lives, and older versions never become valid again', async () => {
  const database = await connectPostgres(await newPostgresDatabase())
  onTestFinished(() => database.close())
  await database.transaction((sql) => sql`INSERT INTO accounts (id, name, created) VALUES (1, 'ann', 0)`)
  const store = new PostgresPlantStore(database)
  const start = async () => {
    const replica = new Replica(database, async () => undefined)
    onTestFinished(() => replica.leave())
    await replica.live()
  }
  const epoch = () =>
    database.read(async (sql) => {
      const [row] = await sql<{ value: number }[]>`SELECT value FROM counters WHERE name = 'plant_versions_epoch'`
      return row?.value
    })
  await start()
  await store.create(1, { name: 'Fern' })
  const before = await store.fetchVersion(1)
  const epochBefore = await epoch()

  // A replica of the previous release sends heartbeats with only these columns, and writes plants without versions.
  await database.transaction(async (sql) => {
    await sql`INSERT INTO replicas (id, seen) VALUES ('older', EXTRACT(EPOCH FROM now())::bigint)`
    await sql`INSERT INTO plants (account, id, name) VALUES (1, 2, 'Moss')`
  })
  expect(await store.fetchVersion(1)).toBeNull()
  await eventually(async () => expect(await epoch()).not.toBe(epochBefore))
  expect(await store.fetchVersion(1)).toBeNull()
  await database.transaction((sql) => sql`DELETE FROM replicas WHERE id = 'older'`)
  const after = await store.fetchVersion(1)
  expect([after, await store.fetchVersion(1)]).toEqual([expect.any(String), after])
  expect(after).not.toBe(before)

  // The older replica may have written while no newer replica lived.
  await start()
  expect(await store.fetchVersion(1)).not.toBe(after)
})
