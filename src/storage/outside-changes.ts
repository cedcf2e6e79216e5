import type { Database, Statement } from 'better-sqlite3'
import { turnOfLoop } from '../turn.ts'

/**
 * Detects writes to the database file by other connections, such as a command beside the service. SQLite is asked at most once in
 * a turn of the event loop, so all reads of one turn see the same version. If each read asked SQLite, a cached page of plants
 * would cost 18 % more CPU time (docs/performance.md).
 */
export class OutsideChanges {
  readonly #dataVersion: Statement<[], number>
  #version = 0
  /** The turn of the event loop in which SQLite was last asked. */
  #turn = -1

  constructor(database: Database) {
    // `data_version` changes with every commit of another connection (sqlite.org/pragma.html#pragma_data_version).
    this.#dataVersion = database.prepare<[], number>('PRAGMA data_version').pluck()
  }

  /** A number that changes after each write by another connection. */
  version(): number {
    const turn = turnOfLoop()
    if (turn !== this.#turn) {
      this.#turn = turn
      this.#version = this.#dataVersion.get() ?? 0
    }
    return this.#version
  }
}
