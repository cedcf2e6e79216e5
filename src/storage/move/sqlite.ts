import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { openDatabase } from '../database.ts'
import { prepareFolder, StorageError } from '../folder.ts'
import { holdForServing, type ServeLock } from '../serve-lock.ts'
import { type House, type Row, readStatement } from './tables.ts'

/**
 * Opens a SQLite file for a move, and keeps services away from it.
 * @throws StorageError when a service uses it, or it is a source and not there
 */
export function openSqliteHouse(file: string, isSource: boolean): House {
  const path = resolve(file)
  if (isSource && !existsSync(path)) throw new StorageError(`There is no database ${path} to move. Check --from.`)
  prepareFolder(dirname(path))
  const lock = holdForServing(dirname(path))
  const database = opened(path, lock)
  database.exec('CREATE TABLE IF NOT EXISTS moves (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT')
  const note = database.prepare(
    'INSERT INTO moves VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
  )
  const numberOf = (sql: string) => Number(database.prepare(sql).pluck().get() ?? 0)
  return {
    place: path,
    read: async (table, after) =>
      database
        .prepare<unknown[], Row>(readStatement(table, after !== undefined, 'BINARY').replace(/\$\d+/g, '?'))
        .all(...(after ?? [])),
    count: async ({ name }) => numberOf(`SELECT count(*) FROM ${name}`),
    highestAccount: async () => numberOf("SELECT seq FROM sqlite_sequence WHERE name = 'accounts'"),
    async begun() {
      const rows = database.prepare<[], { name: string; value: string }>('SELECT name, value FROM moves').all()
      const keys = new Map(rows.map(({ name, value }) => [name, value]))
      const source = keys.get('source')
      return source === undefined ? undefined : { source, keys }
    },
    begin: async (source) => void note.run('source', source),
    async write({ name, columns }, rows, lastKey) {
      const names = Object.keys(columns)
      const insert = database.prepare(
        `INSERT INTO ${name} (${names.map((column) => `"${column}"`).join(', ')}) VALUES (${names.map(() => '?').join(', ')}) ON CONFLICT DO NOTHING`,
      )
      database.transaction(() => {
        for (const row of rows) insert.run(...names.map((column) => row[column]))
        note.run(name, lastKey)
      })()
    },
    async finish(highest) {
      database.transaction(() => {
        database.prepare("DELETE FROM sqlite_sequence WHERE name = 'accounts'").run()
        database.prepare("INSERT INTO sqlite_sequence (name, seq) VALUES ('accounts', ?)").run(highest)
        database.exec('DELETE FROM moves')
      })()
    },
    async close() {
      database.close()
      lock.release()
    },
  }
}

function opened(path: string, lock: ServeLock): ReturnType<typeof openDatabase> {
  try {
    return openDatabase(path)
  } catch (error) {
    lock.release()
    throw error
  }
}
