import type { Database, Statement } from 'better-sqlite3'
import type { GroupCommit } from '../storage/group-commit.ts'
import type { OutsideChanges } from '../storage/outside-changes.ts'

/** How many accounts' counts are remembered at most. */
const most = 10_000

/**
 * How many plants accounts have: counted when first asked for, and followed from there. An account that nobody asks
 * about, since it has no limit, costs nothing.
 */
export class PlantCounts {
  readonly #count: Statement<[number], number>
  readonly #commit: GroupCommit
  readonly #changes: OutsideChanges
  readonly #counts = new Map<number, number>()
  #moment = ''

  constructor(database: Database, commit: GroupCommit, changes: OutsideChanges) {
    this.#count = database.prepare<[number], number>('SELECT count(*) FROM plants WHERE account = ?').pluck()
    this.#commit = commit
    this.#changes = changes
  }

  /** How many plants the account has, those of the running transaction among them. */
  of(account: number): number {
    // What others wrote was not followed, and what was followed may have been rolled back.
    const moment = `${this.#changes.seen()} ${this.#commit.rollbacks}`
    if (moment !== this.#moment || this.#counts.size >= most) this.#counts.clear()
    this.#moment = moment
    const count = this.#counts.get(account) ?? this.#count.get(account) ?? 0
    this.#counts.set(account, count)
    return count
  }

  /** Notes that the account has so many plants more, or fewer. */
  follow(account: number, difference: number): void {
    const count = this.#counts.get(account)
    if (count !== undefined) this.#counts.set(account, count + difference)
  }
}
