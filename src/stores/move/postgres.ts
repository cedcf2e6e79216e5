import { writeRecord } from '../../audit/postgres.ts'
import { commandLine } from '../../audit/record.ts'
import { StorageError } from '../../errors.ts'
import { connectPostgres } from '../../storage/postgres/connect.ts'
import { PostgresDatabase } from '../../storage/postgres/database.ts'
import { unfinishedMoveIn } from '../../storage/postgres/migrate.ts'
import { goneAfterSeconds, livingReplicas } from '../../storage/postgres/replicas.ts'
import { escapeNul, unescapeNul } from '../../storage/postgres/texts.ts'
import { type Kind, type MovableDatabase, quoted, type Row, readStatement, type Table, type Value } from './tables.ts'

/** This is longer than the time limit of a request, because a count or a batch of large rows may take long. */
const statementTimeoutMs = 600_000

/**
 * Opens a PostgreSQL database for a move.
 * @param option the option that has the URL, for messages: `--from` or `--to`
 * @throws StorageError with the host in its message when the database cannot be used
 */
export async function openPostgresForMove(url: string, option: string): Promise<MovableDatabase> {
  // The probe fails soon when the server cannot be reached. `database` waits for slow statements and short outages.
  const probe = await connectPostgres(url, option, undefined, option === '--to')
  await probe.close()
  const database = new PostgresDatabase(url, statementTimeoutMs, probe.isPooled)
  const databaseName = /^[a-z]+:\/\/[^/]*\/([^?]*)/.exec(url)?.[1] ?? ''
  const place = `${database.place}/${databaseName}`
  const saveProgress = 'INSERT INTO moves VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value'
  return {
    place,
    refuseServed: () => refuseServed(database, place),
    async read(table, after) {
      const statement = readStatement(table, after !== undefined)
      const values = after?.map((value, at) => toSql(value, table.columns[table.key[at] ?? '']))
      const rows = await database.read((sql) => sql.unsafe<Row[]>(statement, values))
      return rows.map((row) => mapRow(table, row, fromSql))
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
    unfinishedMove: () => unfinishedMoveIn(database),
    async begin(source) {
      await database.transaction(async (sql) => {
        await sql`CREATE TABLE moves (name TEXT PRIMARY KEY, value TEXT NOT NULL)`
        await sql.unsafe(saveProgress, ['source', source])
      })
    },
    async write(table, rows, lastKey) {
      const plain = rows.map((row) => mapRow(table, row, toSql))
      const valuesOf = (row: Row) => Object.keys(table.columns).map((column) => row[column] ?? null)
      const [statement, inputs] = Object.values(table.columns).includes('BYTEA')
        ? [insertRow(table), plain.map(valuesOf)]
        : [insertRows(table), [[JSON.stringify(plain)]]]
      await database.transaction(async (sql) => {
        for (const input of inputs) await sql.unsafe(statement, input)
        await sql.unsafe(saveProgress, [table.name, lastKey])
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

/** @throws StorageError when a replica has sent a heartbeat in the last 15 seconds */
async function refuseServed(database: PostgresDatabase, place: string): Promise<void> {
  const living = await database.read(async (sql) => (await livingReplicas(sql)).length)
  if (living === 0) return
  throw new StorageError(
    `${place} is served by ${living} replica${living === 1 ? '' : 's'}. Stop all of them. A killed replica counts for ${goneAfterSeconds} more seconds.`,
  )
}

/** The statement that inserts rows from one JSON array. */
function insertRows({ name, columns }: Table): string {
  const names = quoted(Object.keys(columns))
  const shapes = Object.entries(columns).map(
    ([column, kind]) => `"${column}" ${kind === 'BIGINT' || kind === 'DOUBLE PRECISION' ? kind : 'TEXT'}`,
  )
  return `INSERT INTO ${name} (${names})
    SELECT ${names} FROM json_to_recordset($1::text::json) AS x(${shapes.join(', ')}) ON CONFLICT DO NOTHING`
}

/** The statement that inserts one row. For large rows, this needs fewer copies in memory than the statement with JSON. */
function insertRow({ name, columns }: Table): string {
  const values = Object.values(columns).map((kind, at) =>
    kind === 'BYTEA' ? `decode($${at + 1}, 'base64')` : `$${at + 1}`,
  )
  return `INSERT INTO ${name} (${quoted(Object.keys(columns))}) VALUES (${values.join(', ')}) ON CONFLICT DO NOTHING`
}

/** A value as a parameter: bytes are in base64, and U+0000 in names is escaped. */
function toSql(value: Value, kind: Kind | undefined): Value {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.length).toString('base64')
  return kind === 'NAME' && typeof value === 'string' ? escapeNul(value) : value
}

function fromSql(value: Value, kind: Kind | undefined): Value {
  return kind === 'NAME' && typeof value === 'string' ? unescapeNul(value) : value
}

function mapRow({ columns }: Table, row: Row, map: (value: Value, kind: Kind | undefined) => Value): Row {
  return Object.fromEntries(Object.entries(row).map(([column, value]) => [column, map(value, columns[column])]))
}
