import { writeRecord } from '../../audit/postgres.ts'
import { commandLine } from '../../audit/record.ts'
import { StorageError } from '../../errors.ts'
import { connectPostgres } from '../../storage/postgres/connect.ts'
import { PostgresDatabase } from '../../storage/postgres/database.ts'
import { goneAfterSeconds, livingReplicas } from '../../storage/postgres/replicas.ts'
import { escapeNul, unescapeNul } from '../../storage/postgres/texts.ts'
import { unfinishedMoveIn } from '../../storage/postgres/unfinished-move.ts'
import { type Kind, type MovableDatabase, quoted, type Row, readStatement, type Table, type Value } from './tables.ts'

/** Milliseconds that a statement about a batch, or a count, may take. */
const statementTimeoutMs = 600_000

/**
 * Opens a PostgreSQL database for a move.
 * @param option what named it: `--from` or `--to`
 * @throws StorageError with the host when it cannot be used
 */
export async function openPostgresForMove(url: string, option: string): Promise<MovableDatabase> {
  // What cannot be reached is told at once; what goes away later, or is slow, is waited for.
  const tried = await connectPostgres(url, option)
  await tried.close()
  const database = new PostgresDatabase(url, statementTimeoutMs, tried.isPooled)
  const databaseName = /^[a-z]+:\/\/[^/]*\/([^?]*)/.exec(url)?.[1] ?? ''
  const place = `${database.place}/${databaseName}`
  const note = 'INSERT INTO moves VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value'
  return {
    place,
    refuseServed: () => refuseServed(database, place),
    async read(table, after) {
      const statement = readStatement(table, after !== undefined)
      const values = after?.map((value, at) => written(value, table.columns[table.key[at] ?? '']))
      const rows = await database.read((sql) => sql.unsafe<Row[]>(statement, values))
      return rows.map((row) => mapped(table, row, read))
    },
    async count({ name }) {
      const [row] = await database.read((sql) => sql.unsafe<{ n: number }[]>(`SELECT count(*) AS n FROM ${name}`))
      return row?.n ?? 0
    },
    async highestAccount() {
      const [row] = await database.read(
        (sql) => sql<{ value: number }[]>`SELECT value FROM counters WHERE name = 'accounts'`,
      )
      return row?.value ?? 0
    },
    begun: () => unfinishedMoveIn(database),
    async begin(source) {
      await database.transaction(async (sql) => {
        await sql`CREATE TABLE moves (name TEXT PRIMARY KEY, value TEXT NOT NULL)`
        await sql.unsafe(note, ['source', source])
      })
    },
    async write(table, rows, lastKey) {
      const plain = rows.map((row) => mapped(table, row, written))
      const valuesOf = (row: Row) => Object.keys(table.columns).map((column) => row[column] ?? null)
      const [statement, inputs] = Object.values(table.columns).includes('BYTEA')
        ? [insertRow(table), plain.map(valuesOf)]
        : [insertRows(table), [[JSON.stringify(plain)]]]
      await database.transaction(async (sql) => {
        for (const input of inputs) await sql.unsafe(statement, input)
        await sql.unsafe(note, [table.name, lastKey])
      })
    },
    async finish(highest, entry) {
      await database.transaction(async (sql) => {
        await sql`UPDATE counters SET value = ${highest} WHERE name = 'accounts'`
        await sql`DROP TABLE moves`
        await sql`
          UPDATE counters SET value = (SELECT coalesce(max(seq), 0) FROM audit_records) WHERE name = 'audit_records'`
        await writeRecord(sql, commandLine, entry)
      })
    },
    close: () => database.close(),
  }
}

/** @throws StorageError when a replica has shown in the last seconds that it lives */
async function refuseServed(database: PostgresDatabase, place: string): Promise<void> {
  const living = await database.read(async (sql) => (await livingReplicas(sql)).length)
  if (living === 0) return
  throw new StorageError(
    `${place} is served by ${living} replica${living === 1 ? '' : 's'}. Stop all of them; one that was killed counts for ${goneAfterSeconds} seconds more.`,
  )
}

/** Inserts rows that come as JSON. */
function insertRows({ name, columns }: Table): string {
  const names = quoted(Object.keys(columns))
  const shapes = Object.entries(columns).map(([column, kind]) => `"${column}" ${kind === 'BIGINT' ? kind : 'TEXT'}`)
  return `INSERT INTO ${name} (${names})
    SELECT ${names} FROM json_to_recordset($1::text::json) AS x(${shapes.join(', ')}) ON CONFLICT DO NOTHING`
}

/** Inserts one row, which may be large, without as many copies of it. */
function insertRow({ name, columns }: Table): string {
  const values = Object.values(columns).map((kind, at) =>
    kind === 'BYTEA' ? `decode($${at + 1}, 'base64')` : `$${at + 1}`,
  )
  return `INSERT INTO ${name} (${quoted(Object.keys(columns))}) VALUES (${values.join(', ')}) ON CONFLICT DO NOTHING`
}

/** A value as it is sent. */
function written(value: Value, kind: Kind | undefined): Value {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.length).toString('base64')
  return kind === 'NAME' && typeof value === 'string' ? escapeNul(value) : value
}

function read(value: Value, kind: Kind | undefined): Value {
  return kind === 'NAME' && typeof value === 'string' ? unescapeNul(value) : value
}

function mapped({ columns }: Table, row: Row, map: (value: Value, kind: Kind | undefined) => Value): Row {
  return Object.fromEntries(Object.entries(row).map(([column, value]) => [column, map(value, columns[column])]))
}
