import { setTimeout as sleep } from 'node:timers/promises'
import postgres, { type ReservedSql, type Sql, type TransactionSql } from 'postgres'
import { ApiError } from '../../errors.ts'
import {
  databaseUnavailable,
  isConflict,
  isConnectionLoss,
  TookTooLong,
  withinTime,
  writeUnconfirmed,
} from './failures.ts'

/** Milliseconds that a request waits for the database at most. PostgreSQL's own timeouts do not end a commit's wait. */
const patience = 5000
/** Connections of one process. */
const mostConnections = 10
/** Seconds. */
const connectTimeout = 2
const idleTimeout = 300

/** How rows come in: whole numbers are safe integers wherever we write them. */
interface Types extends Record<string, unknown> {
  readonly bigint: number
}
/** What runs statements: a connection of the pool, one that is reserved, or a transaction. */
export type Queries = Sql<Types> | ReservedSql<Types> | TransactionSql<Types>
/** What runs statements in a transaction. */
export type Transaction = TransactionSql<Types>

/** A PostgreSQL database, or an engine that speaks its protocol. */
export class PostgresDatabase {
  /** Where it is, without a name or a password. */
  readonly place: string
  readonly #sql: Sql<Types>

  /** @param url `postgres://…`; several hosts and `target_session_attrs=read-write` follow a failover */
  constructor(url: string) {
    this.place = placeOf(url)
    this.#sql = postgres(url, {
      max: mostConnections,
      connect_timeout: connectTimeout,
      idle_timeout: idleTimeout,
      backoff: false,
      // Asks nothing of the engine's catalogue that not every engine has.
      fetch_types: false,
      onnotice: () => {},
      types: { bigint: { to: 20, from: [20], parse: Number, serialize: String } },
      connection: { application_name: 'conservatory', statement_timeout: patience },
    })
  }

  /**
   * Reads, and again where a connection was lost.
   * @throws ApiError 503 when the database does not answer in time
   */
  read<T>(work: (sql: Queries) => Promise<T>): Promise<T> {
    return persist(
      () => work(this.#sql),
      () => true,
    )
  }

  /**
   * Does a transaction, and again where it could not be serialised, or a connection was lost before its commit. So
   * `work` may run several times, and keeps its results to itself. What it throws undoes it.
   * @throws ApiError 503: `database_unavailable` when nothing was written, `write_unconfirmed` when that is not known
   */
  async transaction<T>(work: (sql: Transaction) => Promise<T>): Promise<T> {
    let isCommitting = false
    let isOver = false
    const attempt = async (): Promise<T> => {
      isCommitting = false
      let done: { readonly value: T } | undefined
      await this.#sql.begin(async (sql) => {
        const value = await work(sql)
        // Whoever waited has been told that nothing was written.
        if (isOver) throw new TookTooLong('the transaction took too long')
        done = { value }
        isCommitting = true
      })
      if (!done) throw new Error('the transaction had no result')
      return done.value
    }
    try {
      return await persist(attempt, (error) => isConflict(error) || !isCommitting)
    } catch (error) {
      isOver = true
      throw isCommitting && error instanceof ApiError && error.code === 'database_unavailable'
        ? writeUnconfirmed(error.cause)
        : error
    }
  }

  /** Reads one moment of the database for as long as it takes, on a connection of its own. */
  async *snapshot<T>(read: (sql: Queries) => AsyncIterable<T>): AsyncIterable<T> {
    const connection = await persist(
      () => this.#sql.reserve(),
      () => true,
    )
    try {
      await connection`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`
      yield* read(connection)
    } finally {
      await connection`ROLLBACK`.catch(() => {})
      connection.release()
    }
  }

  async close(): Promise<void> {
    await this.#sql.end({ timeout: 5 })
  }
}

/** Tries until it is done, or there is no point, or no time left. */
async function persist<T>(attempt: () => Promise<T>, mayRetry: (error: unknown) => boolean): Promise<T> {
  const end = performance.now() + patience
  for (let tries = 0; ; tries++) {
    try {
      return await withinTime(attempt(), end - performance.now())
    } catch (error) {
      if (error instanceof TookTooLong) throw databaseUnavailable(error)
      if (!isConflict(error) && !isConnectionLoss(error)) throw error
      const pause = Math.min(500, 10 * 2 ** tries) * (0.5 + Math.random())
      if (!mayRetry(error) || performance.now() + pause >= end) throw databaseUnavailable(error)
      await sleep(pause)
    }
  }
}

/** The hosts of a database's URL, as it may be shown. */
function placeOf(url: string): string {
  return /^[a-z]+:\/\/(?:[^@/]*@)?([^/?]*)/.exec(url)?.[1] ?? 'the database'
}
