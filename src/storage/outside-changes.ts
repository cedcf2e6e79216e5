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

/** How many answers are remembered at most. */
const most = 10_000

/** Answers of the database, remembered until anybody writes what they tell of: others by themselves, we by `forget`. */
export class Remembered<T> {
  readonly #changes: OutsideChanges
  readonly #answers = new Map<string, T>()
  #version: number | undefined

  constructor(changes: OutsideChanges) {
    this.#changes = changes
  }

  /** The answer to a question, if it is remembered. */
  get(question: string): T | undefined {
    const version = this.#changes.seen()
    if (version !== this.#version) this.forget()
    this.#version = version
    return this.#answers.get(question)
  }

  /** Remembers an answer, and gives it back. */
  set(question: string, answer: T): T {
    if (this.#answers.size >= most) this.forget()
    this.#answers.set(question, answer)
    return answer
  }

  /** What is remembered may no longer be so. */
  forget(): void {
    this.#answers.clear()
  }
}
