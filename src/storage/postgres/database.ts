import { setTimeout as sleep } from 'node:timers/promises'
import postgres, { type Sql, type TransactionSql } from 'postgres'
import { ApiError } from '../../errors.ts'
import {
  databaseUnavailable,
  isConflict,
  isConnectionEnd,
  isConnectionLoss,
  TookTooLong,
  withinTime,
  writeUnconfirmed,
} from './failures.ts'
import { Snapshot } from './snapshot.ts'

/** Milliseconds that a request waits for the database at most. PostgreSQL's own timeouts do not end a commit's wait. */
const patience = 5000
/** Connections of one process: of requests, and of lists that last as long as their readers do. */
const mostConnections = 10
const mostSnapshots = 5
/** Seconds. */
const connectTimeout = 2
const idleTimeout = 300

/** How rows come in: whole numbers are safe integers wherever we write them. */
interface Types extends Record<string, unknown> {
  readonly bigint: number
}
/** What runs statements: a connection of the pool, or a transaction. */
export type Queries = Sql<Types> | TransactionSql<Types>
/** What runs statements in a transaction. */
export type Transaction = TransactionSql<Types>

/** A PostgreSQL database, or an engine that speaks its protocol. */
export class PostgresDatabase {
  /** Where it is, without a name or a password. */
  readonly place: string
  readonly #sql: Sql<Types>
  /** Apart, so that readers who take their time leave the others theirs. */
  readonly #snapshots: Sql<Types>

  /** @param url `postgres://…`; several hosts and `target_session_attrs=read-write` follow a failover */
  constructor(url: string) {
    this.place = placeOf(url)
    this.#sql = connect(url, mostConnections)
    this.#snapshots = connect(url, mostSnapshots)
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
        const value = await unlessLost(work(sql))
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

  /**
   * Reads one moment of the database for as long as it takes, on a connection of its own.
   * @throws ApiError 503 when the database does not answer in time, and what it says when the connection is lost
   */
  async *snapshot<T>(read: (sql: Queries) => AsyncIterable<T>): AsyncIterable<T> {
    const tried: Snapshot<Types>[] = []
    try {
      const open = () => {
        const snapshot = new Snapshot(this.#snapshots)
        tried.push(snapshot)
        return snapshot.opened
      }
      const sql = await persist(open, () => true)
      for await (const item of read(sql)) {
        yield item
        tried.at(-1)?.check()
      }
    } finally {
      for (const snapshot of tried) snapshot.end()
    }
  }

  /** Ends its connections; those that were lost take the client a second. */
  async close(): Promise<void> {
    await Promise.all([this.#sql.end({ timeout: 1 }), this.#snapshots.end({ timeout: 1 })])
  }
}

/**
 * What a transaction's work comes to, and nothing where its connection is gone: told of that, the client would roll back
 * on it, which ends the process (github.com/porsager/postgres/issues/1208). It tells of a lost connection by itself.
 */
function unlessLost<T>(work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    if (isConnectionEnd(error)) return new Promise<never>(() => {})
    throw error
  })
}

/** A pool of connections, none of which is made before it is needed. */
function connect(url: string, max: number): Sql<Types> {
  return postgres(url, {
    max,
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
