import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Database } from 'better-sqlite3'
import { commandLine } from '../../audit/record.ts'
import { writeRecord } from '../../audit/sqlite.ts'
import { StorageError } from '../../errors.ts'
import { prepareFolder } from '../../storage/data-folder.ts'
import { openDatabase } from '../../storage/database.ts'
import { lockForServing } from '../../storage/file-lock.ts'
import { migrations } from '../../storage/migrations.ts'
import { unfinishedMoveInFile } from '../../storage/unfinished-move.ts'
import { type MovableDatabase, quoted, type Row, readStatement, type Table, type Value } from './tables.ts'

/**
 * Opens a SQLite file for a move, and locks its folder, so that no service starts in it. No other program can write to a source.
 * @throws StorageError when another program uses the file, or a source does not exist
 */
export function openSqliteForMove(file: string, isSource: boolean): MovableDatabase {
  const path = resolve(file)
  if (isSource && !existsSync(path)) throw new StorageError(`There is no database ${path} to move. Check --from.`)
  prepareFolder(dirname(path))
  const lock = lockForServing(dirname(path))
  let opened: Database | undefined
  try {
    opened = openDatabase(path, migrations, undefined, !isSource)
    if (isSource) lockForReading(opened)
  } catch (error) {
    opened?.close()
    lock.release()
    throw error
  }
  const database = opened
  const saveProgress = () =>
    database.prepare('INSERT INTO moves VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value')
  const numberOf = (sql: string) => Number(database.prepare(sql).pluck().get() ?? 0)
  return {
    place: path,
    // While the folder is locked, no service uses the file.
    refuseServed: async () => {},
    async read(table, after) {
      // Without this pause, the event loop could process no answer of the other database until the whole table is read.
      await nextTurn()
      const statement = readStatement(table, after !== undefined).replace(/\$\d+/g, '?')
      const rows = database.prepare<unknown[], Row>(statement).all(...(after ?? []))
      return rows.map((row) => withoutNul(table, row))
    },
    count: async ({ name }) => numberOf(`SELECT count(*) FROM ${name}`),
    highestAccount: async () => numberOf("SELECT seq FROM sqlite_sequence WHERE name = 'accounts'"),
    unfinishedMove: async () => unfinishedMoveInFile(database),
    async begin(source) {
      database.transaction(() => {
        database.exec('CREATE TABLE moves (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT')
        saveProgress().run('source', source)
      })()
    },
    async write({ name, columns }, rows, lastKey) {
      const names = Object.keys(columns)
      const insert = database.prepare(
        `INSERT INTO ${name} (${quoted(names)}) VALUES (${names.map(() => '?').join(', ')}) ON CONFLICT DO NOTHING`,
      )
      database.transaction(() => {
        for (const row of rows) insert.run(...names.map((column) => row[column]))
        saveProgress().run(name, lastKey)
      })()
    },
    async finish(highest, entry) {
      database.transaction(() => {
        database.prepare("DELETE FROM sqlite_sequence WHERE name = 'accounts'").run()
        database.prepare("INSERT INTO sqlite_sequence (name, seq) VALUES ('accounts', ?)").run(highest)
        database.exec('DROP TABLE moves')
        writeRecord(database, commandLine, entry)
      })()
    },
    async close() {
      database.close()
      lock.release()
    },
  }
}

/** Keeps all other writers from a source until the end of the move. Commands write without the lock on the folder. */
function lockForReading(database: Database): void {
  try {
    database.exec('BEGIN IMMEDIATE')
  } catch (error) {
    const isBusy = error instanceof Error && 'code' in error && error.code === 'SQLITE_BUSY'
    if (!isBusy) throw error
    throw new StorageError(`Another program writes to ${database.name}. Try again when it has ended.`)
  }
}

/**
 * Replaces U+0000 in the texts of a row, because PostgreSQL cannot store this character. A service over PostgreSQL replaces the
 * character in the same way, for example in the name of a model from a request.
 */
function withoutNul({ columns }: Table, row: Row): Row {
  let found: Record<string, Value> | undefined
  for (const column in row) {
    const value = row[column]
    if (typeof value !== 'string' || columns[column] !== 'TEXT' || !value.includes('\0')) continue
    found ??= { ...row }
    found[column] = value.replaceAll('\0', '\uFFFD')
  }
  return found ?? row
}
