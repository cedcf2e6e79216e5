import Database, { type Statement } from 'better-sqlite3'

/**
 * Finds the line of each plant id in an import file. The line numbers are in a temporary SQLite file and not in memory, because
 * an import may have any number of plants.
 */
export class LinesById {
  readonly #database = new Database('')
  readonly #insert: Statement<[number, number]>
  readonly #line: Statement<[number], number>

  constructor() {
    this.#database.exec(`
      PRAGMA journal_mode = OFF;
      CREATE TABLE lines (id INTEGER PRIMARY KEY, line INTEGER NOT NULL) STRICT;
      BEGIN`)
    this.#insert = this.#database.prepare('INSERT INTO lines VALUES (?, ?) ON CONFLICT DO NOTHING')
    this.#line = this.#database.prepare<[number], number>('SELECT line FROM lines WHERE id = ?').pluck()
  }

  /** Adds the line of an id. @returns the earlier line with the same id, if there is such a line */
  add(id: number, line: number): number | undefined {
    return this.#insert.run(id, line).changes === 0 ? this.#line.get(id) : undefined
  }

  close(): void {
    this.#database.close()
  }
}
