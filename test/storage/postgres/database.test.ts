import { describe, expect, it, onTestFinished } from 'vitest'
import { ApiError } from '../../../src/errors.ts'
import { PostgresPlantStore } from '../../../src/plants/postgres.ts'
import { postgresMigrations } from '../../../src/storage/migrations.ts'
import { PostgresDatabase } from '../../../src/storage/postgres/database.ts'
import { migratePostgres } from '../../../src/storage/postgres/migrate.ts'
import { eventually } from '../../support/eventually.ts'
import { eachPage, namesOf, plantsOf } from '../../support/plant-pages.ts'
import { startPostgres } from '../../support/postgres.ts'
import { newPostgresDatabase } from '../../support/shared-postgres.ts'

describe('the schema in PostgreSQL', () => {
  it('is created once, even if five replicas start at the same moment', async () => {
    const url = await newPostgresDatabase()
    const replicas = Array.from({ length: 5 }, () => new PostgresDatabase(url))
    await Promise.all(replicas.map((replica) => migratePostgres(replica)))
    const [first] = replicas
    const rows = await first?.read((sql) => sql<{ name: string }[]>`SELECT name FROM migrations`)
    expect(rows?.map(({ name }) => name)).toStrictEqual(postgresMigrations.map(({ name }) => name))
    await Promise.all(replicas.map((replica) => replica.close()))
  })

  it('of a newer version, or with missing columns, is refused with the reason', async () => {
    const url = await newPostgresDatabase()
    const database = new PostgresDatabase(url)
    await migratePostgres(database)
    await database.transaction((sql) => sql`ALTER TABLE plants DROP COLUMN tag`)
    await expect(migratePostgres(database)).rejects.toThrow('plants.tag missing')
    await database.transaction((sql) => sql`INSERT INTO migrations VALUES ('0099-later', 1)`)
    await expect(migratePostgres(database)).rejects.toThrow('newer version of Conservatory (it has 0099-later)')
    await database.close()
  })
})

describe('a server that crashes and comes back', () => {
  it('ends lists with an error; a plant whose write is repeated with its idempotency key is neither lost nor duplicated', async () => {
    const crashing = await startPostgres()
    const database = new PostgresDatabase(await crashing.createDatabase())
    onTestFinished(async () => {
      await database.close()
      await crashing.stop()
    })
    await migratePostgres(database)
    await database.transaction((sql) => sql`INSERT INTO accounts (id, name, created) VALUES (1, 'ann', 0)`)
    const store = new PostgresPlantStore(database)
    await Promise.all(Array.from({ length: 600 }, (_, id) => store.create(1, { name: `old ${id}`, id })))
    const list = store.listLong(1, {}, eachPage)[Symbol.asyncIterator]()
    const first = await list.next()
    expect(first.done ? [] : plantsOf(first.value)).toHaveLength(500)

    let isOver = false
    const acknowledged: string[] = []
    const refusals = new Set<unknown>()
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let count = 0; !isOver; ) {
        const name = `${writer} ${count}`
        try {
          await store.create(1, { name }, { key: name, request: name })
          acknowledged.push(name)
          count++
        } catch (error) {
          refusals.add(error instanceof ApiError ? error.code : error)
        }
      }
    })
    await eventually(() => expect(acknowledged.length).toBeGreaterThan(50))
    await crashing.kill()
    await expect(list.next()).rejects.toThrow()
    await crashing.start()
    const before = acknowledged.length
    await eventually(() => expect(acknowledged.length).toBeGreaterThan(before + 50))
    isOver = true
    await Promise.all(writers)
    for (const refusal of refusals) expect(['write_unconfirmed', 'database_unavailable']).toContain(refusal)
    const names = namesOf(await store.list(1, {}, 1_000_000))
    expect(names.filter((name) => !name.startsWith('old')).toSorted()).toEqual(acknowledged.toSorted())
  })
})
