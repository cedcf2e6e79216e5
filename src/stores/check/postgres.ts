import { isDamage } from '../../errors.ts'
import { newerVersion } from '../../storage/data-folder.ts'
import { postgresMigrations } from '../../storage/migrations.ts'
import type { PostgresDatabase } from '../../storage/postgres/database.ts'
import { type CheckedDatabase, damage, type Finding, type KeyValue } from './rules.ts'

/** The indexes of a table with more rows are not compared with the table: a comparison reads all rows twice in one snapshot. */
const maxComparedRows = 1_000_000

interface Index {
  readonly name: string
  readonly table: string
  readonly columns: string
  readonly predicate: string | null
  readonly isValid: boolean
  readonly rows: number
}

/**
 * A PostgreSQL database to check.
 * @param note gets a sentence for each check that is left out
 * @throws StorageError when a newer version has migrated the database; ApiError 503 when the database does not answer
 */
export async function postgresToCheck(
  database: PostgresDatabase,
  note: (sentence: string) => void,
): Promise<CheckedDatabase> {
  const tables = await tablesOf(database)
  const applied = await migrationsOf(database, tables)
  const known = new Set(postgresMigrations.map(({ name }) => name))
  const unknown = applied.filter((name) => !known.has(name))
  if (unknown.length > 0)
    throw newerVersion(`The database at ${database.place}`, unknown, 'Check it with that version.')
  const made = postgresMigrations
    .filter(({ name }) => applied.includes(name))
    .flatMap(({ sql }) => [...sql.matchAll(/CREATE TABLE (\w+)/g)].map(([, table = '']) => table))
  return {
    engine: 'PostgreSQL',
    tables,
    missing: made.filter((name) => !tables.has(name)),
    integrity: () => integrityOf(database, note),
    query<Row extends object>(text: string, values: readonly KeyValue[]) {
      let place = 0
      const numbered = text.replaceAll('?', () => `$${++place}`)
      return database.read((sql) => sql.unsafe<Row[]>(numbered, [...values]))
    },
  }
}

async function tablesOf(database: PostgresDatabase): Promise<ReadonlyMap<string, readonly string[]>> {
  const keys = await database.read(
    (sql) => sql<{ table: string; columns: string }[]>`
      SELECT t.table_name AS table, coalesce(string_agg(k.column_name, ' ' ORDER BY k.ordinal_position), '') AS columns
      FROM information_schema.tables AS t
      LEFT JOIN information_schema.table_constraints AS c
        ON c.table_schema = t.table_schema AND c.table_name = t.table_name AND c.constraint_type = 'PRIMARY KEY'
      LEFT JOIN information_schema.key_column_usage AS k ON k.constraint_schema = c.constraint_schema
        AND k.constraint_name = c.constraint_name AND k.table_name = t.table_name
      WHERE t.table_schema = current_schema() GROUP BY t.table_name`,
  )
  return new Map(keys.map(({ table, columns }) => [table, columns.split(' ').filter(Boolean)]))
}

async function migrationsOf(database: PostgresDatabase, tables: ReadonlyMap<string, unknown>) {
  if (!tables.has('migrations')) return []
  const rows = await database.read((sql) => sql<{ name: string }[]>`SELECT name FROM migrations`)
  return rows.map(({ name }) => name)
}

async function* integrityOf(database: PostgresDatabase, note: (sentence: string) => void): AsyncIterable<Finding> {
  const indexes = await database.read(
    (sql) => sql<Index[]>`
      SELECT i.relname AS name, t.relname AS table, x.indisvalid AS "isValid", t.reltuples AS rows,
        pg_get_expr(x.indpred, x.indrelid) AS predicate,
        (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY place)
          FROM unnest(x.indkey::int[]) WITH ORDINALITY AS k (number, place)
          JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = k.number) AS columns
      FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid JOIN pg_class AS t ON t.oid = x.indrelid
      JOIN pg_namespace AS n ON n.oid = t.relnamespace
      WHERE n.nspname = current_schema() AND x.indexprs IS NULL ORDER BY t.relname, i.relname`,
  )
  const large = new Set<string>()
  for (const index of indexes) {
    if (!index.isValid)
      yield damage(`The index ${index.name} is not valid. Build it anew: REINDEX INDEX ${index.name}.`)
    else if (index.rows > maxComparedRows) large.add(index.table)
    else yield* compare(database, index)
  }
  for (const table of large)
    note(`The table ${table} has over a million rows, so its indexes are not compared with the table. Use pg_amcheck.`)
}

/** Compares an index with its table in one snapshot. */
async function* compare(database: PostgresDatabase, index: Index): AsyncIterable<Finding> {
  const { name, table } = index
  try {
    const sums = new Set<string | undefined>()
    for await (const sum of bothSums(database, index)) sums.add(sum)
    if (sums.size > 1)
      yield damage(`The index ${name} has other rows than its table ${table}. Build it anew: REINDEX INDEX ${name}.`)
  } catch (error) {
    if (!(error instanceof Error) || !isDamage(error)) throw error
    yield damage(`The table ${table} or its index ${name} cannot be read: ${error.message}.`)
  }
}

/** A checksum of the rows from the index, and one from the table. */
function bothSums(database: PostgresDatabase, { table, columns, predicate }: Index): AsyncIterable<string | undefined> {
  const where = predicate === null ? '' : `WHERE ${predicate}`
  // The settings of the planner force an index scan in the order of the index, or a sequential scan of the table.
  const sumOf = (order: string) => `
    SELECT count(*) || ' ' || coalesce(sum(hashtextextended(ROW(${columns})::text, 0)), 0) AS sum
    FROM (SELECT ${columns} FROM ${table} ${where} ${order} OFFSET 0) AS r`
  const ways = [
    { byIndex: 'on', byTable: 'off', sum: sumOf(`ORDER BY ${columns}`) },
    { byIndex: 'off', byTable: 'on', sum: sumOf('') },
  ]
  return database.snapshot(async function* (sql) {
    for (const { byIndex, byTable, sum } of ways) {
      await sql.unsafe(`SET LOCAL enable_indexscan = ${byIndex}; SET LOCAL enable_indexonlyscan = ${byIndex};
        SET LOCAL enable_seqscan = ${byTable}; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = ${byTable}`)
      const [row] = await sql.unsafe<{ sum: string }[]>(sum)
      yield row?.sum
    }
  })
}
