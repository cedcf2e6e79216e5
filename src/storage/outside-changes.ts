import type { Database, Statement } from 'better-sqlite3'

/**
 * Tells whether anybody else has written to the database file: a command beside the service, say. What this process
 * writes itself it knows. It asks once in a turn of the event loop, which is all that a request can tell apart.
 */
export class OutsideChanges {
  readonly #dataVersion: Statement<[], number>
  #version = 0
  #isSure = false

  constructor(database: Database) {
    // Changes with every commit of another connection (sqlite.org/pragma.html#pragma_data_version).
    this.#dataVersion = database.prepare<[], number>('PRAGMA data_version').pluck()
  }

  /** A number that is another one after somebody else has written. */
  seen(): number {
    if (!this.#isSure) {
      this.#version = this.#dataVersion.get() ?? 0
      this.#isSure = true
      setImmediate(() => {
        this.#isSure = false
      })
    }
    return this.#version
  }
}
