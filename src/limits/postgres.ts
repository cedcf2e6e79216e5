import { randomUUID } from 'node:crypto'
import { type Alarm, type Clock, machineClock } from '../clock.ts'
import { ApiError } from '../errors.ts'
import type { PostgresDatabase, Transaction } from '../storage/postgres/database.ts'
import { databaseUnavailable } from '../storage/postgres/failures.ts'
import { PostgresGroupCommit } from '../storage/postgres/group-commit.ts'
import { withoutStandby } from '../storage/postgres/standby.ts'
import {
  countRows,
  type Holding,
  isSome,
  readCommitted,
  removeIdleRows,
  type SharedTally,
  saveRows,
} from './postgres-rows.ts'
import type { Released, SharedCounts, TallyOf } from './shared-counts.ts'

/** Milliseconds for which what a replica holds is counted unless it says again that it does. */
const usualLease = 20_000
/** Milliseconds after which rows that nobody needs are looked for again. */
const sweepEvery = 24 * 60 * 60 * 1000
/** How many rows of a kind one transaction removes. */
const mostSwept = 1000

interface Claim {
  readonly subjects: readonly string[]
  readonly judge: (tallyOf: TallyOf, now: number) => void
  readonly readsSpending: boolean
}

/**
 * Counts in PostgreSQL what replicas count together. All claims of one turn of the event loop share a transaction: it
 * locks the rows of their subjects, reads what all replicas have counted, judges in memory, and writes what comes of that.
 * What a replica holds is known best by itself: it writes how much that is, never how much more or less, and writes it
 * again before the lease ends. So a write that went wrong is mended by the next, and a replica that is dead holds nothing.
 */
export class PostgresCounts implements SharedCounts {
  readonly #database: PostgresDatabase
  readonly #replica = randomUUID()
  readonly #lease: number
  readonly #clock: Clock
  readonly #claims: PostgresGroupCommit<Claim, true>
  /** Those of which something is held, or was when that was last written. */
  readonly #holdings = new Map<string, Holding>()
  #renewing: Alarm | undefined
  #sweptAt = Number.NEGATIVE_INFINITY

  /**
   * @param lease milliseconds after which what a dead replica held is free, by the database's clock
   * @param clock tells when to say again what is held
   */
  constructor(database: PostgresDatabase, lease = usualLease, clock = machineClock) {
    this.#database = database
    this.#lease = lease
    this.#clock = clock
    let saved: readonly SharedTally[] = []
    this.#claims = new PostgresGroupCommit(database, {
      commit: async (sql, claims) => {
        const judged = await this.#judge(sql, claims)
        saved = judged.saved
        return judged.answers
      },
      committed: () => {
        for (const tally of saved) this.#follow(tally)
      },
    })
  }

  async take<T>(
    subjects: readonly string[],
    judge: (tallyOf: TallyOf, now: number) => T,
    readsSpending = false,
  ): Promise<T> {
    let judged: { readonly answer: T } | undefined
    this.#sweep()
    const claim: Claim = {
      subjects,
      judge: (tallyOf, now) => {
        judged = { answer: judge(tallyOf, now) }
      },
      readsSpending,
    }
    await this.#claims.add(claim).catch((error: unknown) => {
      // Whether it was written or not, nobody has been let in, and what was taken comes back by itself.
      throw error instanceof ApiError && error.code === 'write_unconfirmed' ? databaseUnavailable(error.cause) : error
    })
    if (!judged) throw new Error('the claim was not judged')
    return judged.answer
  }

  async release(all: readonly Released[]): Promise<void> {
    for (const { subject, chats, reserved, tokens } of all) {
      const holding = this.#holdingOf(subject)
      holding.chats -= chats
      holding.reserved -= reserved
      holding.tokens += tokens
    }
    await this.#restate(all.map(({ subject }) => subject))
  }

  /** Writes what is held, and lets nothing be written again, as before the database is closed. */
  async close(): Promise<void> {
    this.#renewing?.close()
    if (this.#holdings.size > 0) await this.#restate([...this.#holdings.keys()])
  }

  /** Writes what is held of subjects. What cannot be written now is written with the next renewal. */
  async #restate(subjects: readonly string[]): Promise<void> {
    await this.take(subjects, () => true).catch(() => undefined)
  }

  async #judge(sql: Transaction, claims: readonly Claim[]) {
    const subjects = [...new Set(claims.flatMap((claim) => claim.subjects))].toSorted()
    const spenders = claims.flatMap((claim) => (claim.readsSpending ? claim.subjects : []))
    const question = { subjects, spenders, replica: this.#replica, holdings: this.#holdings }
    const asked = [readCommitted(sql), withoutStandby(sql)]
    const [{ tallies, now }] = await Promise.all([countRows(sql, question), ...asked])
    const tallyOf = (subject: string): SharedTally => {
      const tally = tallies.get(subject)
      if (!tally) throw new Error('the judge asks for a subject that was not claimed')
      return tally
    }
    const changed = new Set<SharedTally>()
    const answers = claims.map(({ subjects, judge }) => {
      try {
        judge(tallyOf, now)
        for (const subject of subjects) changed.add(tallyOf(subject))
        return true
      } catch (error) {
        if (error instanceof ApiError) return error
        throw error
      }
    })
    const saved = [...changed]
    if (saved.length > 0) await saveRows(sql, saved, this.#replica, now + this.#lease)
    return { answers, saved }
  }

  /** Takes over what has been written of a subject; meanwhile some of it may have been given back. */
  #follow({ subject, before, own }: SharedTally): void {
    if (before === undefined && !isSome(own)) return
    const holding = this.#holdingOf(subject)
    holding.chats += own.chats - (before?.chats ?? 0)
    holding.reserved += own.reserved - (before?.reserved ?? 0)
    holding.tokens -= before?.tokens ?? 0
    if (!isSome(own) && !isSome(holding) && holding.tokens === 0) this.#holdings.delete(subject)
  }

  #holdingOf(subject: string): Holding {
    const known = this.#holdings.get(subject)
    if (known) return known
    const holding = { chats: 0, reserved: 0, tokens: 0 }
    this.#holdings.set(subject, holding)
    this.#renewing ??= this.#startRenewing()
    return holding
  }

  #startRenewing(): Alarm {
    const renewing = this.#clock.setTimeout(() => {
      renewing.refresh()
      if (this.#holdings.size > 0) void this.#restate([...this.#holdings.keys()])
    }, this.#lease / 4)
    return renewing
  }

  /** Has rows removed that nobody needs, now and then; where that fails it is tried again after as long. */
  #sweep(): void {
    if (performance.now() - this.#sweptAt < sweepEvery) return
    this.#sweptAt = performance.now()
    this.#removeIdle().catch(() => undefined)
  }

  async #removeIdle(): Promise<void> {
    while ((await this.#database.transaction((sql) => removeIdleRows(sql, mostSwept))) > 0);
  }
}
