import { randomUUID } from 'node:crypto'
import { type Clock, machineClock, type Timer } from '../clock.ts'
import { ApiError } from '../errors.ts'
import type { PostgresDatabase, Transaction } from '../storage/postgres/database.ts'
import { databaseUnavailable } from '../storage/postgres/failures.ts'
import { PostgresGroupCommit } from '../storage/postgres/group-commit.ts'
import { withoutStandby } from '../storage/postgres/replicas.ts'
import type { Tally } from './counting.ts'
import {
  countRows,
  type Holding,
  holdsAny,
  readCommitted,
  removeIdleRows,
  type SharedTally,
  saveRows,
} from './postgres-rows.ts'

/** Time after which a replica's share expires if the replica does not renew the share. */
const defaultLeaseMs = 20_000
/** Time between two searches for idle rows. */
const sweepIntervalMs = 24 * 60 * 60 * 1000
/** Rows of each kind that one transaction removes. */
const maxRowsPerSweep = 1000

/** Finds the counts of a subject: `key:ID` or `account:ID`. */
export type TallyOf = (subject: string) => Tally

/** The counts of a subject that a chat request releases when it ends. */
export interface Released {
  readonly subject: string
  readonly chats: number
  readonly reserved: number
  /** Spent tokens minus the tokens taken from this minute; negative if the request spent less than it took. */
  readonly tokens: number
}

/** The counts as the limiter uses them. */
export type SharedCounts = Pick<PostgresCounts, 'take' | 'release'>

interface Claim {
  readonly subjects: readonly string[]
  readonly decide: (tallyOf: TallyOf, now: number) => void
  readonly readsSpending: boolean
}

/**
 * Keeps the counts of several replicas in PostgreSQL. Claims (calls of `take`) that wait at the same time share a transaction.
 * The transaction locks the rows of the claimed subjects, reads the counts of all replicas, decides in memory, and writes the
 * result. A replica writes its share as an absolute number, never as a difference. So the next write corrects a failed write. The
 * share has a lease, which the replica renews. So the share of a dead replica expires.
 */
export class PostgresCounts {
  readonly #database: PostgresDatabase
  readonly #replica = randomUUID()
  readonly #leaseMs: number
  readonly #clock: Clock
  readonly #claims: PostgresGroupCommit<Claim, true>
  /** The holdings of this replica, by subject. A holding stays here until a write has stored that it is empty. */
  readonly #holdings = new Map<string, Holding>()
  #renewing: Timer | undefined
  #sweptAtMs = Number.NEGATIVE_INFINITY

  /**
   * @param leaseMs time after which the share of a dead replica expires, by the database's clock
   * @param clock the clock for the renewals
   */
  constructor(database: PostgresDatabase, leaseMs = defaultLeaseMs, clock = machineClock) {
    this.#database = database
    this.#leaseMs = leaseMs
    this.#clock = clock
    let saved: readonly SharedTally[] = []
    this.#claims = new PostgresGroupCommit(database, {
      commit: async (sql, claims) => {
        const decided = await this.#decide(sql, claims)
        saved = decided.saved
        return decided.answers
      },
      committed: () => {
        for (const tally of saved) this.#applyWritten(tally)
      },
    })
  }

  /**
   * Calls `decide` with the counts of all replicas, and writes the counts that `decide` changed. In-flight chats and reserved
   * tokens are counted only while this replica renews its lease: they stop counting soon after the replica has died.
   * @param decide changes the tallies and returns an answer. It may be called several times: only the last call counts. `now`
   *   is in milliseconds
   * @param readsSpending whether `decide` reads spent tokens
   * @throws ApiError the error that `decide` throws, and then no count changes; 503 when the counts cannot be read or written
   */
  async take<T>(
    subjects: readonly string[],
    decide: (tallyOf: TallyOf, now: number) => T,
    readsSpending = false,
  ): Promise<T> {
    let decided: { readonly answer: T } | undefined
    this.#sweep()
    const claim: Claim = {
      subjects,
      decide: (tallyOf, now) => {
        decided = { answer: decide(tallyOf, now) }
      },
      readsSpending,
    }
    await this.#claims.add(claim).catch((error: unknown) => {
      // It is unknown whether the write happened, so the request is refused. If the write happened, the tokens refill. The chat
      // counts until this replica next writes its share, or at the latest until the lease of the share ends.
      throw error instanceof ApiError && error.code === 'write_unconfirmed' ? databaseUnavailable(error.cause) : error
    })
    if (!decided) throw new Error('the claim was not decided')
    return decided.answer
  }

  /**
   * Releases in-flight chats and reserved tokens of this replica. Resolves when the write has succeeded or failed; renewals
   * repeat a failed write until it succeeds.
   */
  async release(all: readonly Released[]): Promise<void> {
    for (const { subject, chats, reserved, tokens } of all) {
      const holding = this.#holdingOf(subject)
      holding.chats -= chats
      holding.reserved -= reserved
      holding.tokens += tokens
    }
    await this.#writeShares(all.map(({ subject }) => subject))
  }

  /** Stops the renewals, and writes the shares once more. To be called before the database is closed. */
  async close(): Promise<void> {
    this.#renewing?.close()
    if (this.#holdings.size > 0) await this.#writeShares([...this.#holdings.keys()])
  }

  /** Writes this replica's shares of subjects. If the write fails, the next renewal repeats it. */
  async #writeShares(subjects: readonly string[]): Promise<void> {
    await this.take(subjects, () => true).catch(() => undefined)
  }

  async #decide(sql: Transaction, claims: readonly Claim[]) {
    const subjects = [...new Set(claims.flatMap((claim) => claim.subjects))].toSorted()
    const spendingSubjects = claims.flatMap((claim) => (claim.readsSpending ? claim.subjects : []))
    const query = { subjects, spendingSubjects, replica: this.#replica, holdings: this.#holdings }
    const settings = [readCommitted(sql), withoutStandby(sql)]
    const [{ tallies, now }] = await Promise.all([countRows(sql, query), ...settings])
    const tallyOf = (subject: string): SharedTally => {
      const tally = tallies.get(subject)
      if (!tally) throw new Error('decide() read a subject that was not claimed')
      return tally
    }
    const changed = new Set<SharedTally>()
    const answers = claims.map(({ subjects, decide }) => {
      try {
        decide(tallyOf, now)
        for (const subject of subjects) changed.add(tallyOf(subject))
        return true
      } catch (error) {
        if (error instanceof ApiError) return error
        throw error
      }
    })
    const saved = [...changed]
    if (saved.length > 0) await saveRows(sql, saved, this.#replica, now + this.#leaseMs)
    return { answers, saved }
  }

  /** Adds the written change to the holding. A copy of the written state would lose releases that came during the write. */
  #applyWritten({ subject, previous, ownShare }: SharedTally): void {
    if (previous === undefined && !holdsAny(ownShare)) return
    const holding = this.#holdingOf(subject)
    holding.chats += ownShare.chats - (previous?.chats ?? 0)
    holding.reserved += ownShare.reserved - (previous?.reserved ?? 0)
    holding.tokens -= previous?.tokens ?? 0
    if (!holdsAny(ownShare) && !holdsAny(holding) && holding.tokens === 0) this.#holdings.delete(subject)
  }

  #holdingOf(subject: string): Holding {
    const known = this.#holdings.get(subject)
    if (known) return known
    const holding = { chats: 0, reserved: 0, tokens: 0 }
    this.#holdings.set(subject, holding)
    this.#renewing ??= this.#startRenewing()
    return holding
  }

  #startRenewing(): Timer {
    const renewing = this.#clock.setTimeout(() => {
      renewing.refresh()
      if (this.#holdings.size > 0) void this.#writeShares([...this.#holdings.keys()])
    }, this.#leaseMs / 4)
    return renewing
  }

  /** Starts a removal of idle rows once a day. Rows that a failed removal leaves are removed the next day. */
  #sweep(): void {
    if (performance.now() - this.#sweptAtMs < sweepIntervalMs) return
    this.#sweptAtMs = performance.now()
    this.#removeIdle().catch(() => undefined)
  }

  async #removeIdle(): Promise<void> {
    while ((await this.#database.transaction((sql) => removeIdleRows(sql, maxRowsPerSweep))) > 0);
  }
}
