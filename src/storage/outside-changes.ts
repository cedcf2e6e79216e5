import type { Database, Statement } from 'better-sqlite3'

/**
 * Detects writes to the database file by other connections, such as a command beside the service. SQLite is asked at most once in
 * a turn of the event loop, so all reads of one turn see the same version. If each read asked SQLite, a cached page of plants
 * would cost 18 % more CPU time (docs/performance.md).
 */
export class OutsideChanges {
  readonly #dataVersion: Statement<[], number>
  #version = 0
  /** Whether SQLite was asked in this turn of the event loop. */
  #isFresh = false

  constructor(database: Database) {
    // `data_version` changes with every commit of another connection (sqlite.org/pragma.html#pragma_data_version).
    this.#dataVersion = database.prepare<[], number>('PRAGMA data_version').pluck()
  }

  /** A number that changes after each write by another connection. */
  version(): number {
    if (!this.#isFresh) {
      this.#version = this.#dataVersion.get() ?? 0
      this.#isFresh = true
      setImmediate(this.#endTurn)
    }
    return this.#version
  }

  readonly #endTurn = (): void => {
    this.#isFresh = false
  }
}
