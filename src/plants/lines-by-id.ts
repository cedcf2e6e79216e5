import Database, { type Statement } from 'better-sqlite3'

/** The line number of each id of a file. They are in a temporary file of SQLite, since there may be any number. */
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

  /** Adds the line of an id. @returns the earlier line with the same id, if there is one */
  add(id: number, line: number): number | undefined {
    return this.#insert.run(id, line).changes === 0 ? this.#line.get(id) : undefined
  }

  close(): void {
    this.#database.close()
  }
}
