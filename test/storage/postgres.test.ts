import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PostgresDatabase } from '../../src/storage/postgres/database.ts'
import { migratePostgres } from '../../src/storage/postgres/migrate.ts'
import { type PostgresServer, startPostgres } from '../support/postgres.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

describe('the schema in PostgreSQL', () => {
  it('is made once, however many replicas start at the same moment', async () => {
    const url = await server.createDatabase()
    const replicas = Array.from({ length: 5 }, () => new PostgresDatabase(url))
    await Promise.all(replicas.map((replica) => migratePostgres(replica)))
    const [first] = replicas
    const rows = await first?.read((sql) => sql<{ name: string }[]>`SELECT name FROM migrations`)
    expect(rows?.map(({ name }) => name)).toStrictEqual(['0001-all-stores'])
    await Promise.all(replicas.map((replica) => replica.close()))
  })

  it('of a newer version, or changed by somebody, is refused with what is wrong', async () => {
    const url = await server.createDatabase()
    const database = new PostgresDatabase(url)
    await migratePostgres(database)
    await database.transaction((sql) => sql`ALTER TABLE plants DROP COLUMN tag`)
    await expect(migratePostgres(database)).rejects.toThrow('plants.tag missing')
    await database.transaction((sql) => sql`INSERT INTO migrations VALUES ('0099-later', 1)`)
    await expect(migratePostgres(database)).rejects.toThrow('newer version of Conservatory (it has 0099-later)')
    await database.close()
  })
})
