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

/** The count for a reply; no limit depends on this count. */
interface UnlimitedCount extends Counted {
  /** Whether all plants are counted; false if the count stopped at the number that the reply needs. */
  readonly isAll: boolean
}

/** A count in progress. */
interface Counting {
  sum: number
  /** The highest id that is counted so far. */
  after: number
  readonly done: Promise<void>
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
  /** The counts for replies, apart from the counts for limits. */
  readonly #unlimitedCounts = new Map<number, UnlimitedCount>()
  readonly #running = new Map<number, Counting>()

  constructor(database: Database, commit: GroupCommit, changes: OutsideChanges) {
    this.#slice = database.prepare(`
      SELECT count(*) AS count, max(id) AS last
      FROM (SELECT id FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT ?)`)
    this.#commit = commit
    this.#changes = changes
  }

  /**
   * Whether the account has a valid cached count. A write of another process and a rollback in this process make all cached
   * counts invalid.
   */
  isKnown(account: number): boolean {
    return this.#counts.get(account)?.version === this.#version()
  }

  /**
   * Counts the account's plants in slices, so that other requests run in between. Writes of this process during the count are
   * counted. Writes of other processes may be counted or not; after such a write, the next caller counts the account again.
   * @returns undefined if one slice was enough, which is the usual case
   */
  load(account: number): Promise<void> | undefined {
    const running = this.#running.get(account)
    if (running) return running.done
    const version = this.#version()
    const counting = { sum: 0, after: Number.MIN_SAFE_INTEGER - 1 }
    if (this.#countSlice(account, counting)) {
      cache(this.#counts, account, { count: counting.sum, version })
      return undefined
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const shared = Object.assign(counting, { done: promise })
    this.#running.set(account, shared)
    this.#countRest(account, shared, version)
      .finally(() => this.#running.delete(account))
      .then(resolve, reject)
    return promise
  }

  async #countRest(account: number, counting: Counting, version: string): Promise<void> {
    do await setImmediate()
    while (!this.#countSlice(account, counting))
    cache(this.#counts, account, { count: counting.sum, version })
  }

  /** @returns whether it was the last slice */
  #countSlice(account: number, counting: Omit<Counting, 'done'>): boolean {
    const slice = this.#slice.get(account, counting.after, plantsPerSlice)
    if (!slice) return true
    counting.sum += slice.count
    if (slice.count < plantsPerSlice) return true
    counting.after = slice.last
    return false
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

  /**
   * Counts the account's plants for a reply. The count is cached, because counting ten thousand plants takes as long as several
   * requests.
   * @param enough the count may stop at this number
   */
  async countUpTo(account: number, enough: number): Promise<number> {
    if (this.isKnown(account)) return this.of(account)
    const version = this.#version()
    const cached = this.#unlimitedCounts.get(account)
    if (cached?.version === version && (cached.isAll || cached.count >= enough)) return cached.count
    for (let sum = 0, after = Number.MIN_SAFE_INTEGER - 1; ; ) {
      const length = Math.min(plantsPerSlice, enough - sum)
      const slice = this.#slice.get(account, after, length)
      sum += slice?.count ?? 0
      if (!slice || slice.count < length || sum >= enough) {
        // A count of several slices is not cached: between two slices, plants may be added or removed.
        if (enough <= plantsPerSlice)
          cache(this.#unlimitedCounts, account, { count: sum, version, isAll: sum < enough })
        return sum
      }
      after = slice.last
      await setImmediate()
    }
  }

  /** The database's version: it changes when another process has written, or a transaction was rolled back. */
  #version(): string {
    return `${this.#changes.version()} ${this.#commit.rollbacks}`
  }

  /** Counts a plant that was added (1) or removed (-1). */
  adjust(account: number, id: number, difference: number): void {
    const counted = this.#counts.get(account)
    if (counted) counted.count += difference
    const cached = this.#unlimitedCounts.get(account)
    if (cached) cached.count += difference
    const counting = this.#running.get(account)
    if (counting && id <= counting.after) counting.sum += difference
  }
}

/** Caches the count of an account. If the cache is full, all other counts are dropped first. */
function cache<T extends Counted>(counts: Map<number, T>, account: number, counted: T): void {
  if (counts.size >= maxAccounts) counts.clear()
  counts.set(account, counted)
}
