import type { Database, Statement } from 'better-sqlite3'

/**
 * Detects writes to the database file by other connections, such as a command beside the service. It asks SQLite once in a
 * turn of the event loop: all reads of one turn see the same version.
 */
export class OutsideChanges {
  readonly #dataVersion: Statement<[], number>
  #version = 0
  #isFresh = false

  constructor(database: Database) {
    // Changes with every commit of another connection (sqlite.org/pragma.html#pragma_data_version).
    this.#dataVersion = database.prepare<[], number>('PRAGMA data_version').pluck()
  }

  /** A number that changes after each write by another connection. */
  version(): number {
    if (!this.#isFresh) {
      this.#version = this.#dataVersion.get() ?? 0
      this.#isFresh = true
      setImmediate(() => {
        this.#isFresh = false
      })
    }
    return this.#version
  }
}

const maxAnswers = 10_000

/**
 * A cache of answers of the database. A write by another connection empties it; this process calls `forget` after its own
 * writes.
 */
export class VersionedCache<T> {
  readonly #changes: OutsideChanges
  readonly #answers = new Map<string, T>()
  #version: number | undefined

  constructor(changes: OutsideChanges) {
    this.#changes = changes
  }

  /** The cached answer to a question; undefined when there is none. */
  get(question: string): T | undefined {
    const version = this.#changes.version()
    if (version !== this.#version) this.forget()
    this.#version = version
    return this.#answers.get(question)
  }

  /** Caches an answer, and returns it. */
  set(question: string, answer: T): T {
    if (this.#answers.size >= maxAnswers) this.forget()
    this.#answers.set(question, answer)
    return answer
  }

  /** Empties the cache: its answers may be wrong now. */
  forget(): void {
    this.#answers.clear()
  }
}
