import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import postgres from 'postgres'

/** The parts of a database file that can be damaged. */
export type Part = 'header' | 'table' | 'index'

const namesOf: Readonly<Record<Part, string>> = { header: '', table: 'plants', index: 'plants_by_tag' }

/**
 * Overwrites the header of the database file in a folder, or the first page of the table of plants or of its index by tag. A
 * service may have pages of the file in its cache. So this function first writes through SQLite, which makes the cache invalid.
 */
export function damageSqlite(folder: string, part: Part): void {
  const path = join(folder, 'conservatory.db')
  const database = new Database(path)
  const root = database
    .prepare<[string], number>('SELECT rootpage FROM sqlite_schema WHERE name = ?')
    .pluck()
    .get(namesOf[part])
  database.exec("INSERT INTO notices (id, text) VALUES ('damage', 'x'); DELETE FROM notices WHERE id = 'damage'")
  database.pragma('wal_checkpoint(TRUNCATE)')
  const size = Number(database.pragma('page_size', { simple: true }))
  database.close()
  const file = openSync(path, 'r+')
  // The header of the file has 100 bytes. A page of a table or an index is overwritten as a whole.
  if (root === undefined) writeSync(file, Buffer.alloc(100, 0xa5), 0, 100, 0)
  else writeSync(file, Buffer.alloc(size, 0xa5), 0, size, (root - 1) * size)
  closeSync(file)
}

/** The file of a relation in PostgreSQL's data folder, after a checkpoint. */
export async function fileOfRelation(url: string, relation: string): Promise<string> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  await sql`CHECKPOINT`
  const [row] = await sql<{ path: string }[]>`SELECT pg_relation_filepath(${relation}::regclass) AS path`
  await sql.end()
  return row?.path ?? ''
}
