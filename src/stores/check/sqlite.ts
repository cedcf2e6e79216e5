import Database from 'better-sqlite3'
import { tablesIn } from '../../storage/copy.ts'
import { newerVersion } from '../../storage/data-folder.ts'
import { appliedMigrations, migrations, unknownMigrations } from '../../storage/migrations.ts'
import { type CheckedDatabase, damage, type Finding, type KeyValue } from './rules.ts'

/** A file up to this size is checked in one snapshot. A larger file is checked table by table. */
const maxWholeBytes = 256 * 1024 * 1024

/**
 * A SQLite file to check. The check blocks no writer.
 * @throws StorageError when a newer version has migrated the file; SQLite's error when the schema cannot be read
 */
export function sqliteToCheck(database: Database.Database, path: string): CheckedDatabase {
  const applied = appliedMigrations(database) ?? []
  const unknown = unknownMigrations(applied)
  if (unknown.length > 0) throw newerVersion(`The database ${path}`, unknown, 'Check it with that version.')
  const names = tablesIn(database)
  const keyOf = database
    .prepare<[string], string>('SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk')
    .pluck()
  const tables = new Map(names.map((name): [string, readonly string[]] => [name, keyOf.all(name)]))
  return {
    engine: 'SQLite',
    tables,
    missing: tablesOf(applied).filter((name) => !tables.has(name)),
    integrity: () => integrityOf(database, names),
    async query<Row extends object>(sql: string, values: readonly KeyValue[]) {
      return database.prepare<KeyValue[], Row>(sql).all(...values)
    },
  }
}

/** The tables that exist after these migrations. */
function tablesOf(applied: readonly string[]): readonly string[] {
  const schema = new Database(':memory:')
  for (const { sql } of migrations.filter(({ name }) => applied.includes(name))) schema.exec(sql)
  const tables = tablesIn(schema)
  schema.close()
  return tables
}

async function* integrityOf(database: Database.Database, tables: readonly string[]): AsyncIterable<Finding> {
  const bytes = database
    .prepare<[], number>('SELECT page_count * page_size FROM pragma_page_count, pragma_page_size')
    .pluck()
    .get()
  const parts = (bytes ?? 0) > maxWholeBytes ? ['sqlite_schema', ...tables] : [undefined]
  for (const part of parts) {
    const words = part === undefined ? 'integrity_check(20)' : `integrity_check('${part}')`
    const found = database.prepare<[], string>(`PRAGMA ${words}`).pluck().all()
    // One row may have several lines, each with a fault.
    for (const line of found.flatMap((text) => text.split('\n'))) {
      if (line !== 'ok' && !/^\*\*\* in database/.test(line)) yield damage(`SQLite says of the file: ${line}.`)
    }
  }
  for (const { table, parent, faults } of brokenReferences(database))
    yield { kind: 'orphan', message: `${table}: SQLite finds no row of ${parent} for ${faults} references.` }
}

function brokenReferences(database: Database.Database) {
  return database
    .prepare<[], { table: string; parent: string; faults: number }>(
      'SELECT "table", parent, count(*) AS faults FROM pragma_foreign_key_check GROUP BY 1, 2',
    )
    .all()
}
