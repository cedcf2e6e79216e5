import { StorageError } from '../folder.ts'
import { PostgresDatabase } from '../postgres/database.ts'
import { migratePostgres } from '../postgres/migrate.ts'
import { type House, type Row, readStatement } from './tables.ts'

/** Opens a PostgreSQL database for a move. @throws StorageError with the host when it cannot be used */
export async function openPostgresHouse(url: string): Promise<House> {
  const database = new PostgresDatabase(url)
  try {
    await migratePostgres(database)
    await database.transaction((sql) =>
      sql.unsafe('CREATE TABLE IF NOT EXISTS moves (name TEXT PRIMARY KEY, value TEXT NOT NULL)'),
    )
  } catch (error) {
    await database.close()
    if (error instanceof StorageError) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new StorageError(`The database at ${database.place} cannot be used: ${reason}`, { cause: error })
  }
  const note = 'INSERT INTO moves VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value'
  const numberOf = async (text: string) => (await database.read((sql) => sql.unsafe<{ n: number }[]>(text)))[0]?.n ?? 0
  const databaseName = /^[a-z]+:\/\/[^/]*\/([^?]*)/.exec(url)?.[1] ?? ''
  return {
    place: `${database.place}/${databaseName}`,
    read: (table, after) =>
      database.read(async (sql) => [
        ...(await sql.unsafe<Row[]>(readStatement(table, after !== undefined, '"C"'), [...(after ?? [])])),
      ]),
    count: ({ name }) => numberOf(`SELECT count(*) AS n FROM ${name}`),
    highestAccount: () => numberOf("SELECT value AS n FROM counters WHERE name = 'accounts'"),
    async begun() {
      const rows = await database.read((sql) => sql<{ name: string; value: string }[]>`SELECT name, value FROM moves`)
      const keys = new Map(rows.map(({ name, value }) => [name, value]))
      const source = keys.get('source')
      return source === undefined ? undefined : { source, keys }
    },
    begin: async (source) => void (await database.transaction((sql) => sql.unsafe(note, ['source', source]))),
    async write({ name, columns }, rows, lastKey) {
      const names = Object.entries(columns)
      const shapes = names.map(([column, type]) => `"${column}" ${type === 'BYTEA' ? 'TEXT' : type}`)
      const values = names.map(([column, type]) => (type === 'BYTEA' ? `decode("${column}", 'hex')` : `"${column}"`))
      const insert = `INSERT INTO ${name} (${names.map(([column]) => `"${column}"`).join(', ')})
        SELECT ${values.join(', ')} FROM json_to_recordset($1::text::json) AS x(${shapes.join(', ')}) ON CONFLICT DO NOTHING`
      const plain = rows.map((row) =>
        Object.fromEntries(
          Object.entries(row).map(([column, value]) => [
            column,
            value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
          ]),
        ),
      )
      await database.transaction(async (sql) => {
        await sql.unsafe(insert, [JSON.stringify(plain)])
        await sql.unsafe(note, [name, lastKey])
      })
    },
    async finish(highest) {
      await database.transaction(async (sql) => {
        await sql`UPDATE counters SET value = ${highest} WHERE name = 'accounts'`
        await sql`DELETE FROM moves`
      })
    },
    close: () => database.close(),
  }
}
