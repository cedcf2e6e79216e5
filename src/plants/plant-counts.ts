import { setImmediate } from 'node:timers/promises'
import type { Database, Statement } from 'better-sqlite3'
import type { GroupCommit } from '../storage/group-commit.ts'
import type { OutsideChanges } from '../storage/outside-changes.ts'

/** How many plants are counted at once where nobody waits in the same turn: they hold the event loop for some 10 ms. */
const sliceSize = 100_000
/** How many accounts' counts are remembered at most. */
const most = 10_000

/**
 * How many plants accounts have: counted when first asked for, and followed from there. An account that nobody asks
 * about, since it has no limit, costs nothing.
 */
export class PlantCounts {
  readonly #count: Statement<[number], number>
  readonly #slice: Statement<[number, number, number], { readonly count: number; readonly last: number }>
  readonly #commit: GroupCommit
  readonly #changes: OutsideChanges
  readonly #counts = new Map<number, number>()
  #moment = ''

  constructor(database: Database, commit: GroupCommit, changes: OutsideChanges) {
    this.#count = database.prepare<[number], number>('SELECT count(*) FROM plants WHERE account = ?').pluck()
    this.#slice = database.prepare(`
      SELECT count(*) AS count, max(id) AS last
      FROM (SELECT id FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT ?)`)
    this.#commit = commit
    this.#changes = changes
  }

  /** How many plants the account has, those of the running transaction among them. */
  of(account: number): number {
    const counts = this.#current()
    const count = counts.get(account) ?? this.#count.get(account) ?? 0
    counts.set(account, count)
    return count
  }

  /**
   * The same for a caller who can wait, so that others' requests come in between: theirs may be counted or not.
   * @param enough how many are counted at least, where there are as many
   */
  async ofAnySize(account: number, enough: number): Promise<number> {
    const known = this.#current().get(account)
    if (known !== undefined) return known
    for (let sum = 0, after = Number.MIN_SAFE_INTEGER - 1; ; ) {
      const most = Math.min(sliceSize, enough - sum)
      const slice = this.#slice.get(account, after, most)
      sum += slice?.count ?? 0
      if (!slice || slice.count < most || sum >= enough) return sum
      after = slice.last
      await setImmediate()
    }
  }

  /** The counts that still hold: what others wrote was not followed, and what was followed may have been rolled back. */
  #current(): Map<number, number> {
    const moment = `${this.#changes.seen()} ${this.#commit.rollbacks}`
    if (moment !== this.#moment || this.#counts.size >= most) this.#counts.clear()
    this.#moment = moment
    return this.#counts
  }

  /** Notes that the account has so many plants more, or fewer. */
  follow(account: number, difference: number): void {
    const count = this.#counts.get(account)
    if (count !== undefined) this.#counts.set(account, count + difference)
  }
}
