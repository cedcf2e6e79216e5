import type { Database, Statement } from 'better-sqlite3'

/** The most bytes of memory of the answers in one cache: some 10,000 keys. A key for a hundred models may take 50 kB. */
const maxBytes = 16 * 1024 ** 2
/** Estimated bytes of memory of an answer, besides its texts. A character of a text may take two bytes. */
const bytesOfAnswer = 500
/** How long an answer is valid when other replicas write too. */
const lifetimeMs = 500

/** Answers of a database, in bounded memory. */
class AnswerCache<T> {
  readonly #answers = new Map<string, T>()
  #bytes = 0

  /** The cached answer to a question; undefined when no valid answer is cached. */
  get(question: string): T | undefined {
    return this.#answers.get(question)
  }

  /** Caches an answer, and returns it. A full cache is emptied first. */
  set(question: string, answer: T): T {
    if (this.#bytes >= maxBytes) this.forget()
    // A replaced answer still counts, so the cache is sometimes emptied too early.
    this.#bytes += bytesOfAnswer + 2 * (question.length + JSON.stringify(answer).length)
    this.#answers.set(question, answer)
    return answer
  }

  /** Empties the cache: its answers may be wrong now. */
  forget(): void {
    this.#answers.clear()
    this.#bytes = 0
  }
}

/**
 * A cache for a SQLite file. A write by another connection empties the cache. After its own writes, this process calls `forget`.
 * Without such a cache for shares, a cached page of plants costs 46 % more CPU time (bench/figures.md).
 */
export class VersionedCache<T> extends AnswerCache<T> {
  readonly #changes: OutsideChanges
  #version: number | undefined

  constructor(changes: OutsideChanges) {
    super()
    this.#changes = changes
  }

  override get(question: string): T | undefined {
    const version = this.#changes.version()
    if (version !== this.#version) this.forget()
    this.#version = version
    return super.get(question)
  }
}

/**
 * A cache for a database in which other replicas write too: an answer is valid for half a second. A change by another replica is
 * seen at most this time, plus the duration of a read, later.
 */
export class ShortLivedCache<T> {
  readonly #cache = new AnswerCache<{ readonly answer: T; readonly until: number }>()

  /** The cached answer to a question; undefined when no valid answer is cached. */
  get(question: string): T | undefined {
    const known = this.#cache.get(question)
    return known && known.until > performance.now() ? known.answer : undefined
  }

  /** Caches an answer, and returns it. A full cache is emptied first. */
  set(question: string, answer: T): T {
    return this.#cache.set(question, { answer, until: performance.now() + lifetimeMs }).answer
  }

  /** Empties the cache: its answers may be wrong now. */
  forget(): void {
    this.#cache.forget()
  }
}

/**
 * Detects writes to the database file by other connections, such as a command beside the service. SQLite is asked at most once in
 * a turn of the event loop, so all reads of one turn see the same version. If each read asked SQLite, a cached page of plants
 * would cost 18 % more CPU time (bench/figures.md).
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
