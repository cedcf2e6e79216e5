import Database from 'better-sqlite3'
import type { AuditEntry } from '../../audit/record.ts'
import { valueIn } from '../../fields.ts'
import { tablesIn, whileOpen } from '../../storage/copy.ts'
import { migrations } from '../../storage/migrations.ts'
import type { UnfinishedMove } from '../../storage/unfinished-move.ts'

/** A value of a row, the same for both engines. Only the sources of cards and the pieces of cards are bytes. */
export type Value = string | number | Uint8Array | null
export type Row = Readonly<Record<string, Value>>

/** The type of a column. A NAME is a text that keeps U+0000. A TEXT loses U+0000. */
export type Kind = 'TEXT' | 'NAME' | 'BIGINT' | 'DOUBLE PRECISION' | 'BYTEA'

/** A table that is moved. */
export interface Table {
  readonly name: string
  readonly key: readonly string[]
  readonly columns: Readonly<Record<string, Kind>>
  /** How many rows are read and written in one step. A table with large rows has a small number. */
  readonly batch: number
}

/** Columns of names, which may have any character. */
const nameColumns = new Set([
  'characters.name',
  'characters.folded',
  'character_versions.name',
  'character_use.name',
  'uploads.name',
  'audit_records.target',
])
const batches: Readonly<Record<string, number>> = {
  characters: 50,
  character_versions: 1,
  card_pieces: 8,
  photo_pieces: 8,
}
const kinds: Readonly<Record<string, Kind>> = { INTEGER: 'BIGINT', REAL: 'DOUBLE PRECISION', BLOB: 'BYTEA' }

/**
 * All tables of the schema of SQLite, each after the tables that it refers to. PostgreSQL has them too, with the same columns.
 * What only PostgreSQL has belongs to its replicas, and is not moved.
 */
export const tables: readonly Table[] = whileOpen(new Database(':memory:'), (schema) => {
  for (const { sql } of migrations) schema.exec(sql)
  const columnsOf = schema.prepare<[string], { name: string; type: string; pk: number }>(
    'SELECT name, type, pk FROM pragma_table_info(?)',
  )
  return tablesIn(schema).map((name) => {
    const columns = columnsOf.all(name)
    const key = columns.filter(({ pk }) => pk > 0).toSorted((one, other) => one.pk - other.pk)
    const kindOf = (column: string, type: string) =>
      nameColumns.has(`${name}.${column}`) ? 'NAME' : (valueIn(kinds, type) ?? 'TEXT')
    return {
      name,
      key: key.map((column) => column.name),
      columns: Object.fromEntries(columns.map((column) => [column.name, kindOf(column.name, column.type)])),
      batch: valueIn(batches, name) ?? 2000,
    }
  })
})

/** A database as the source or the target of a move. */
export interface MovableDatabase {
  /** The path of the database, or its hosts and name, without a user name and a password. */
  readonly place: string
  /** @throws StorageError when a service uses the database */
  refuseServed(): Promise<void>
  /** The batch of rows after a key, or the first batch, in the engine's own order of keys. */
  read(table: Table, after: readonly Value[] | undefined): Promise<readonly Row[]>
  count(table: Table): Promise<number>
  /** The highest id that an account has had. */
  highestAccount(): Promise<number>
  /** The unfinished move into this database; undefined when there is no such move. */
  unfinishedMove(): Promise<UnfinishedMove | undefined>
  /** Begins a move into this database. Until `finish`, a service refuses to start with this database. */
  begin(source: string): Promise<void>
  /** Writes rows, and records the key of the last row in the same transaction. */
  write(table: Table, rows: readonly Row[], lastKey: string): Promise<void>
  /** Completes the move, and writes the audit entry. From then on, new accounts get ids above `highestAccount`. */
  finish(highestAccount: number, entry: AuditEntry): Promise<void>
  close(): Promise<void>
}

/** The statement that reads a batch in the order of the key. `$1` and so on stand for the last key of the previous batch. */
export function readStatement({ name, key, columns, batch }: Table, isAfter: boolean): string {
  const ordered = quoted(key)
  const after = isAfter ? `WHERE (${ordered}) > (${key.map((_, at) => `$${at + 1}`).join(', ')})` : ''
  return `SELECT ${quoted(Object.keys(columns))} FROM ${name} ${after} ORDER BY ${ordered} LIMIT ${batch}`
}

/** A list of quoted column names for SQL. */
export function quoted(columns: readonly string[]): string {
  return columns.map((column) => `"${column}"`).join(', ')
}
