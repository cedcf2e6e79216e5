import type { Database, Statement } from 'better-sqlite3'
import type { GroupCommit } from '../storage/group-commit.ts'
import { nextId } from './policy.ts'

/**
 * Caches the highest id of each account within a transaction, which may add many plants. With a query for each plant,
 * `POST /plants` would cost 9 % more CPU time (docs/performance.md).
 */
export class HighestIds {
  readonly #lookUp: Statement<[number], number | null>
  readonly #commit: GroupCommit
  readonly #known = new Map<number, number>()
  #transaction = 0

  constructor(database: Database, commit: GroupCommit) {
    this.#lookUp = database.prepare<[number], number | null>('SELECT max(id) FROM plants WHERE account = ?').pluck()
    this.#commit = commit
  }

  /**
   * The id for a new plant: one more than the highest id, at least 1. The caller must add the plant next.
   * @throws ApiError 409 when there is no higher id
   */
  next(account: number): number {
    const { transaction } = this.#commit
    if (this.#transaction !== transaction) this.#known.clear()
    this.#transaction = transaction
    const id = nextId(this.#known.get(account) ?? this.#lookUp.get(account) ?? 0)
    this.#known.set(account, id)
    return id
  }

  /** Notes a plant that was added with an id of the caller's choice. */
  note(account: number, id: number): void {
    const known = this.#transaction === this.#commit.transaction ? this.#known.get(account) : undefined
    if (known !== undefined && id > known) this.#known.set(account, id)
  }

  /** Drops the cached id of an account whose plant was removed: the plant may have had the highest id. */
  forget(account: number): void {
    this.#known.delete(account)
  }
}
