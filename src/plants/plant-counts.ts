import { setImmediate } from 'node:timers/promises'
import type { Database, Statement } from 'better-sqlite3'
import { overloaded } from '../errors.ts'
import type { GroupCommit } from '../storage/group-commit.ts'
import type { OutsideChanges } from '../storage/outside-changes.ts'

/** How many plants are counted at once where nobody waits in the same turn: they hold the event loop for some 10 ms. */
const plantsPerSlice = 100_000
/** How many accounts' counts are remembered at most. */
const maxAccounts = 10_000

/** How many plants an account had. */
interface Counted {
  /** With what this process has changed since. */
  count: number
  /** The version at which that was so. */
  readonly version: string
}

/** What somebody was told who only cached: how many plants there were at least, or all of them. */
interface UnlimitedCount extends Counted {
  readonly isAll: boolean
}

/** A count under way. */
interface Counting {
  sum: number
  /** The highest id that is counted. */
  after: number
  readonly done: Promise<void>
}

/**
 * How many plants accounts have: counted when first asked for, and followed from there. An account that nobody asks
 * about, since it has no limit, costs nothing.
 */
export class PlantCounts {
  readonly #slice: Statement<[number, number, number], { readonly count: number; readonly last: number }>
  readonly #commit: GroupCommit
  readonly #changes: OutsideChanges
  readonly #counts = new Map<number, Counted>()
  /** Apart from the counts, which limits hold to. */
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
   * Whether the count of the account still holds: what others wrote was not followed, and what was followed may have been
   * rolled back.
   */
  isKnown(account: number): boolean {
    return this.#counts.get(account)?.version === this.#version()
  }

  /**
   * Counts the account's plants in slices, so that others' requests come in between. What this process writes meanwhile is
   * counted; what others write may be counted or not, and then the account is counted anew for the next who asks.
   * @returns nothing where one slice was enough, as nearly always
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
   * How many plants the account has, as it was last learned and followed since.
   * @throws ApiError 503 where ten thousand other accounts were learned since, and this one is forgotten
   */
  of(account: number): number {
    const counted = this.#counts.get(account)
    if (!counted) throw overloaded()
    return counted.count
  }

  /**
   * The same for a caller who only looks. Whoever looks often costs the count once: ten thousand plants take as long as
   * several requests.
   * @param enough how many are counted at least, where there are as many
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
        // In one slice nothing has come or gone meanwhile.
        if (enough <= plantsPerSlice)
          cache(this.#unlimitedCounts, account, { count: sum, version, isAll: sum < enough })
        return sum
      }
      after = slice.last
      await setImmediate()
    }
  }

  /** Another text after others have written, or a transaction was rolled back. */
  #version(): string {
    return `${this.#changes.version()} ${this.#commit.rollbacks}`
  }

  /** Notes that a plant of the account has come (1), or gone (-1). */
  adjust(account: number, id: number, difference: number): void {
    const counted = this.#counts.get(account)
    if (counted) counted.count += difference
    const cached = this.#unlimitedCounts.get(account)
    if (cached) cached.count += difference
    const counting = this.#running.get(account)
    if (counting && id <= counting.after) counting.sum += difference
  }
}

/** Keeps what was counted of an account, and forgets all others where they are too many. */
function cache<T extends Counted>(counts: Map<number, T>, account: number, counted: T): void {
  if (counts.size >= maxAccounts) counts.clear()
  counts.set(account, counted)
}
