import { setImmediate } from 'node:timers/promises'
import type { Database, Statement } from 'better-sqlite3'
import { overloaded } from '../errors.ts'
import type { OutsideChanges } from '../storage/caches.ts'
import type { GroupCommit } from '../storage/group-commit.ts'

/** Plants that are counted in one turn of the event loop. This count blocks the event loop for some 10 ms. */
const plantsPerSlice = 100_000
/** The most accounts whose counts are cached. */
const maxAccounts = 10_000

/** The cached count of an account's plants. */
interface Counted {
  /** The count, adjusted by the later changes of this process. */
  count: number
  /** The version of the database when the plants were counted. */
  readonly version: string
}

/** A count in progress. */
interface Counting {
  sum: number
  /** The highest id that is counted so far. */
  after: number
  done?: Promise<void>
}

/**
 * Counts the plants of accounts. The plants of an account are counted in the database when the count is first needed. After that,
 * each change adjusts the count. The writes of an account without a limit need no count.
 */
export class PlantCounts {
  readonly #slice: Statement<[number, number, number], { readonly count: number; readonly last: number }>
  readonly #commit: GroupCommit
  readonly #changes: OutsideChanges
  readonly #counts = new Map<number, Counted>()
  readonly #running = new Map<number, Counting>()

  constructor(database: Database, commit: GroupCommit, changes: OutsideChanges) {
    this.#slice = database.prepare(`
      SELECT count(*) AS count, max(id) AS last
      FROM (SELECT id FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT ?)`)
    this.#commit = commit
    this.#changes = changes
  }

  /**
   * Counts the account's plants, if no valid count is cached: in slices, so that other requests run in between. Writes of this
   * process during the count are counted. Writes of other processes may be counted or not; after such a write, the next caller
   * counts the account again.
   * @returns undefined if the count is known now, which is the usual case
   */
  load(account: number): Promise<void> | undefined {
    const version = this.#version()
    if (this.#counts.get(account)?.version === version) return undefined
    const running = this.#running.get(account)
    if (running?.done) return running.done
    const counting: Counting = { sum: 0, after: Number.MIN_SAFE_INTEGER - 1 }
    if (this.#countSlice(account, counting, version)) return undefined
    this.#running.set(account, counting)
    counting.done = this.#countRest(account, counting, version).finally(() => this.#running.delete(account))
    return counting.done
  }

  async #countRest(account: number, counting: Counting, version: string): Promise<void> {
    do await setImmediate()
    while (!this.#countSlice(account, counting, version))
  }

  /** @returns whether it was the last slice; then the count is cached */
  #countSlice(account: number, counting: Counting, version: string): boolean {
    const slice = this.#slice.get(account, counting.after, plantsPerSlice)
    counting.sum += slice?.count ?? 0
    if (slice?.count === plantsPerSlice) {
      counting.after = slice.last
      return false
    }
    if (this.#counts.size >= maxAccounts) this.#counts.clear()
    this.#counts.set(account, { count: counting.sum, version })
    return true
  }

  /**
   * The cached count of the account.
   * @throws ApiError 503 when the count was dropped, because ten thousand other accounts were counted since
   */
  of(account: number): number {
    const counted = this.#counts.get(account)
    if (!counted) throw overloaded()
    return counted.count
  }

  /** Counts the account's plants for a reply. @param enough the count may stop at this number */
  async countUpTo(account: number, enough: number): Promise<number> {
    if (enough <= plantsPerSlice) {
      return this.#slice.get(account, Number.MIN_SAFE_INTEGER - 1, enough)?.count ?? 0
    }
    await this.load(account)
    return this.of(account)
  }

  /** The database's version: it changes when another process has written, or a transaction was rolled back. */
  #version(): string {
    return `${this.#changes.version()} ${this.#commit.rollbacks}`
  }

  /** Forgets the count of an account, after a transaction has failed that had adjusted it. */
  forget(account: number): void {
    this.#counts.delete(account)
  }

  /** Counts a plant that was added (1) or removed (-1). */
  adjust(account: number, id: number, difference: number): void {
    const counted = this.#counts.get(account)
    if (counted) counted.count += difference
    const counting = this.#running.get(account)
    if (counting && id <= counting.after) counting.sum += difference
  }
}
