import { setTimeout as sleep } from 'node:timers/promises'
import postgres, { type Sql, type TransactionSql } from 'postgres'
import { ApiError, codeOf } from '../../errors.ts'
import type { Metric } from '../../instruments.ts'
import { operationDurations, poolMetrics } from '../metrics.ts'
import { toWriteError } from '../write-error.ts'
import { ConnectionSlots } from './connection-slots.ts'
import {
  DatabaseTimeout,
  databaseUnavailable,
  isConflict,
  isConnectionLoss,
  isReadOnly,
  isRefusal,
  showsPooler,
  Unconfirmed,
  withinTime,
  writeUnconfirmed,
} from './failures.ts'
import { requestAccount, withinRequestTime } from './request-time.ts'
import { Sockets } from './sockets.ts'
import { takeTls } from './tls.ts'
import { runTransaction, Snapshot, Warnings } from './transactions.ts'

/** How long a request waits for the database. PostgreSQL has no timeout for a commit that waits for a standby. */
const requestTimeoutMs = 5000
/** Connections for reads. They are separate, so that reads never wait for transactions that wait for a lock or a standby. */
const readConnections = 5
/** Connections of lanes (`TransactionOptions.lane`): one connection each for plants, the ledger, and limits. */
const laneConnections = 3
/** Connections of all other transactions. */
const otherConnections = 7
/** How many of the other connections one account may use at a time. */
const maxPerAccount = 2
/** How many connections one process opens at most. */
export const maxConnections = readConnections + laneConnections + otherConnections
const connectTimeoutSeconds = 2
const idleTimeoutSeconds = 300
/** SQLSTATE undefined_function. */
const undefinedFunction = '42883'

/** How values of rows are parsed. BIGINT becomes a number, because the service writes only safe integers. */
interface Types extends Record<string, unknown> {
  readonly bigint: number
}
/** A pool of connections or a transaction: both run statements. */
export type Queries = Sql<Types> | TransactionSql<Types>
/** A transaction that runs statements. */
export type Transaction = TransactionSql<Types>

/** How a transaction gets its connection, and how its commit is watched. */
export interface TransactionOptions {
  /** The lane of the transaction. A lane has one connection, and runs one transaction at a time. */
  readonly lane?: object
  /** Transactions of one sharer use at most two connections. By default the sharer is the account of the request. */
  readonly sharer?: object
  /** How long the transaction waits for each lock. After that time the transaction is retried. */
  readonly lockTimeoutMs?: number
  /** Called right before each commit. When it throws, the transaction is rolled back. */
  beforeCommit?(): void
  /** Called after each commit, even if the commit failed. */
  afterCommit?(): void
}

/** One attempt at a transaction, while it has a connection. */
interface RunningAttempt {
  /** The process id of the server's backend; undefined until the server has answered. */
  pid: number | undefined
  /** When the attempt began, by `performance.now()`. */
  readonly began: number
}

/** The connections for reads, or the connections for transactions. */
interface Pool {
  sql: Sql<Types>
  readonly max: number
  readonly sockets: Sockets
  /** Work that no caller waits for any more, and that has not ended. */
  readonly abandoned: Set<Promise<unknown>>
}

/** A PostgreSQL database, or a database of another engine that speaks PostgreSQL's protocol. */
export class PostgresDatabase {
  /** The hosts of the database's URL, without a name or a password. */
  readonly place: string
  /** How long a request waits for the database. */
  readonly timeoutMs: number
  readonly #url: string
  readonly #warnings = new Warnings()
  readonly #lanes = new ConnectionSlots(laneConnections, 1)
  readonly #others = new ConnectionSlots(otherConnections, maxPerAccount)
  readonly #reads: Pool
  readonly #writes: Pool
  /** Reads that are running or waiting for a connection. */
  #reading = 0
  readonly #times = operationDurations()
  /** Durations of operations, and use of connections. */
  readonly metrics: readonly Metric[] = [
    this.#times,
    ...poolMetrics(() => [
      {
        name: 'reads',
        max: readConnections,
        used: Math.min(this.#reading, readConnections),
        waiting: Math.max(0, this.#reading - readConnections),
      },
      { name: 'lanes', ...this.#lanes.use },
      { name: 'others', ...this.#others.use },
    ]),
  ]
  #isPooled: boolean

  /**
   * @param url `postgres://…`. With several hosts, the service finds the host that accepts writes, also after a failover
   * @param timeoutMs how long a caller waits for an answer
   * @param isPooled whether a pooler is known to stand before the server
   * @throws StorageError when the TLS parameters of the URL are invalid; Node's error when the URL cannot be parsed
   */
  constructor(url: string, timeoutMs = requestTimeoutMs, isPooled = false) {
    const { url: withoutTls, tls } = takeTls(url)
    this.#url = withoutTls
    this.timeoutMs = timeoutMs
    this.#isPooled = isPooled
    this.place = placeOf(url)
    this.#reads = this.#pool(readConnections, new Sockets(this.place, tls))
    this.#writes = this.#pool(laneConnections + otherConnections, new Sockets(this.place, tls))
  }

  /** Whether a pooler stands before the server, as far as is known. With a pooler, no state is kept in a session. */
  get isPooled(): boolean {
    return this.#isPooled
  }

  /** The local ports of the connections: a server reports them as the ports of its clients. */
  get ports(): readonly number[] {
    return this.#pools.flatMap(({ sockets }) => sockets.ports)
  }

  /**
   * Detects a pooler before the server: a pooler reports another process id to its clients than the server's `pg_backend_pid`.
   * @throws ApiError 503 when the database does not answer in time
   */
  async detectPooler(): Promise<void> {
    try {
      const rows = await this.read((sql) => sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`)
      if (rows[0]?.pid !== rows.state.pid) this.#expectPooler()
    } catch (error) {
      // Another engine may not have this function. Then the first lost prepared statement shows the pooler (`#followServer`).
      if (codeOf(error) !== undefinedFunction) throw error
    }
  }

  /**
   * Reads, and retries when a connection was lost, or for the reasons of `isConflict`.
   * @throws ApiError 503 when the database does not answer in time
   */
  read<T>(work: (sql: Queries) => Promise<T>): Promise<T> {
    const attempt = async () => {
      const began = performance.now()
      this.#reading++
      try {
        const answer = await work(this.#reads.sql)
        this.#markServed(this.#reads)
        return answer
      } finally {
        this.#reading--
        this.#count('read', began)
      }
    }
    return this.#retry(this.#reads, attempt, () => true)
  }

  /**
   * Runs a transaction, and retries it when it could not be serialised, or when a connection was lost before the commit.
   * So `work` may run several times, and must have no other effects. When `work` throws, the transaction is rolled back.
   * @param timeoutMs how long the transaction may take; by default as long as a request may wait
   * @throws ApiError 503: `database_unavailable` when nothing was written, `write_unconfirmed` when the outcome is unknown; 507
   *   when the disk is full; any other error of `work` unchanged
   */
  async transaction<T>(
    work: (sql: Transaction) => Promise<T>,
    timeoutMs = this.timeoutMs,
    options: TransactionOptions = {},
  ): Promise<T> {
    let isCommitting = false
    let isOver = false
    let running: RunningAttempt | undefined
    const refuseIfOver = () => {
      // The caller already has the answer that nothing was written.
      if (isOver) throw new DatabaseTimeout('the transaction took too long')
    }
    const attempt = async (end: number): Promise<T> => {
      isCommitting = false
      const leave = await this.#enter(options, end)
      const began = performance.now()
      running = { pid: undefined, began }
      let done: { readonly value: T } | undefined
      try {
        await runTransaction(this.#writes.sql, this.#warnings, async (sql) => {
          refuseIfOver()
          const limited = limitTime(sql, end - performance.now(), options.lockTimeoutMs).then((pid) => {
            if (running) running.pid = pid
            this.#markServed(this.#writes)
          })
          const [value] = await Promise.all([work(sql), limited])
          refuseIfOver()
          done = { value }
          return () => {
            options.beforeCommit?.()
            isCommitting = true
          }
        })
      } finally {
        running = undefined
        if (isCommitting) options.afterCommit?.()
        this.#count('write', began)
        leave()
      }
      if (!done) throw new Error('the transaction had no result')
      return done.value
    }
    const mayRetry = (error: unknown) => isConflict(error) || !isCommitting
    try {
      return await this.#retry(this.#writes, attempt, mayRetry, timeoutMs)
    } catch (error) {
      isOver = true
      if (running) this.#endOnServer(running)
      if (error instanceof Unconfirmed) throw writeUnconfirmed(error)
      const isUnknown = isCommitting && error instanceof ApiError && error.code === 'database_unavailable'
      throw isUnknown && !isConflict(error.cause) ? writeUnconfirmed(error.cause) : error
    }
  }

  /**
   * Records that the host of these connections answers. A pooler never counts as answering, because a pooler queues queries while
   * its server is gone. So when a pooler ends a connection, the sockets immediately change to the next host.
   */
  #markServed({ sockets }: Pool): void {
    if (!this.#isPooled) sockets.markServed()
  }

  /** Records how long an attempt took, even if its caller has given up. @param began by `performance.now()` */
  #count(operation: 'read' | 'write', began: number): void {
    this.#times.record((performance.now() - began) / 1000, 'postgresql', operation)
  }

  /**
   * Takes a connection slot. The transaction keeps the slot until its end, even if its caller has given up.
   * @throws DatabaseTimeout when no slot was free in time
   */
  #enter({ lane, sharer }: TransactionOptions, end: number): Promise<() => void> {
    const left = end - performance.now()
    return lane ? this.#lanes.enter(lane, left) : this.#others.enter(sharer ?? requestAccount(), left)
  }

  /**
   * Reads one snapshot of the database on a connection of its own. The whole read has no time limit. So only commands may use
   * this method: in a route, a slow client would keep the connection for too long.
   * @throws ApiError 503 when the database does not answer in time; the database's error when the connection is lost
   */
  async *snapshot<T>(read: (sql: Queries) => AsyncIterable<T>): AsyncIterable<T> {
    const snapshots: Snapshot<Types>[] = []
    try {
      const open = () => {
        const snapshot = new Snapshot(this.#reads.sql)
        snapshots.push(snapshot)
        return snapshot.opened
      }
      const sql = await this.#retry(this.#reads, open, () => true)
      if (this.#isPooled) await limitTime(sql, this.timeoutMs)
      for await (const item of read(sql)) {
        yield item
        snapshots.at(-1)?.check()
      }
    } finally {
      for (const snapshot of snapshots) snapshot.end()
    }
  }

  /** Retries until the work succeeds, fails permanently, or has no time left. All work of a request shares one time limit. */
  #retry<T>(
    pool: Pool,
    attempt: (end: number) => Promise<T>,
    mayRetry: (error: unknown) => boolean,
    timeoutMs = this.timeoutMs,
  ): Promise<T> {
    return withinRequestTime(timeoutMs, (left) => {
      if (left <= 0) throw databaseUnavailable(new DatabaseTimeout('the request has waited for long enough'))
      return this.#retryUntil(performance.now() + left, pool, attempt, mayRetry)
    })
  }

  async #retryUntil<T>(
    end: number,
    pool: Pool,
    attempt: (end: number) => Promise<T>,
    mayRetry: (error: unknown) => boolean,
  ): Promise<T> {
    let before: unknown
    for (let attempts = 0; ; attempts++) {
      const trying = attempt(end)
      try {
        return await withinTime(trying, end - performance.now())
      } catch (error) {
        // The error of an earlier attempt says more than the timeout of the last attempt.
        if (error instanceof DatabaseTimeout) abandon(pool, trying, error, before)
        before = error
        if (!isConflict(error) && !isConnectionLoss(error)) throw permanentFailure(error)
        this.#followServer(error)
        const pause = Math.min(500, 10 * 2 ** attempts) * (0.5 + Math.random())
        if (!mayRetry(error) || performance.now() + pause >= end) throw databaseUnavailable(error)
        await sleep(pause)
      }
    }
  }

  /** Reacts to a failure that shows that a pooler is before the server, or that the server is a standby now. */
  #followServer(error: unknown): void {
    if (showsPooler(error)) this.#expectPooler()
    if (isReadOnly(error)) for (const { sockets } of this.#pools) sockets.endAll()
  }

  /**
   * Ends work on the server that no caller waits for any more. First, this is the attempt, unless a pooler hides its process id.
   * Second, these are the commits of all replicas that have waited for a standby for more than 5 seconds: they would use up one
   * connection after the other until the standby is back. The data of a commit that is ended in this way stays written.
   */
  #endOnServer({ pid, began }: RunningAttempt): void {
    // The same backend may have begun another transaction by now. So the backend is ended only if its transaction is at least
    // half as old as the attempt.
    const age = (performance.now() - began) / 2
    this.#reads.sql`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE application_name = current_setting('application_name') AND datname = current_database()
        AND usename = current_user AND (
          (wait_event = 'SyncRep' AND state_change < now() - INTERVAL '5 seconds')
          OR (pid = ${this.#isPooled ? 0 : (pid ?? 0)} AND xact_start < now() - ${age}::float8 * INTERVAL '1 millisecond')
        )`
      // Another engine may not have these functions. Such an engine has no standby either.
      .catch(() => undefined)
  }

  /**
   * Replaces the connections by connections without prepared statements and settings. Behind a pooler, the statements of one
   * connection may run in different sessions of the server, and a session does not have the prepared statements and settings of
   * another session. Running work has a second to end.
   */
  #expectPooler(): void {
    if (this.#isPooled) return
    this.#isPooled = true
    for (const pool of this.#pools) {
      const before = pool.sql
      pool.sql = this.#connect(pool.sockets, pool.max)
      void before.end({ timeout: 1 })
    }
  }

  get #pools(): readonly Pool[] {
    return [this.#reads, this.#writes]
  }

  #pool(max: number, sockets: Sockets): Pool {
    return { sql: this.#connect(sockets, max), max, sockets, abandoned: new Set() }
  }

  /** Makes a pool that opens each connection when it is needed. */
  #connect(sockets: Sockets, max: number): Sql<Types> {
    const isChoosing = this.place.includes(',') || this.#url.includes('target_session_attrs=')
    const options = {
      max,
      connect_timeout: connectTimeoutSeconds,
      idle_timeout: idleTimeoutSeconds,
      backoff: false,
      socket: () => sockets.open(),
      // The sockets begin TLS.
      ssl: false,
      // The library's own `read-write` mistakes a standby of PostgreSQL 14 and later for a server that writes.
      ...(isChoosing && { target_session_attrs: 'primary' as const }),
      // Not every engine has the catalogue that the library would read.
      fetch_types: false,
      onnotice: this.#warnings.note,
      types: { bigint: { to: 20, from: [20], parse: Number, serialize: String } },
      connection: {
        application_name: 'conservatory',
        ...(!this.#isPooled && { statement_timeout: this.timeoutMs }),
      },
      // An operator who knows the pooler may say `prepare=true` in the URL.
      ...(this.#isPooled && !/[?&]prepare=/.test(this.#url) && { prepare: false }),
    }
    // The sockets choose the host, so the client library gets only the first host.
    return postgres(this.#url.replace(this.place, this.place.split(',')[0] ?? this.place), options)
  }

  /**
   * Ends the connections. If a connection was ever lost, the client library waits for the whole grace period, because the library
   * never counts a lost connection as ended.
   * @param graceSeconds how long running work may still take
   */
  async close(graceSeconds = 1): Promise<void> {
    await Promise.all(this.#pools.map(({ sql }) => sql.end({ timeout: graceSeconds })))
    // The server may leave connections open.
    for (const { sockets } of this.#pools) sockets.endAll()
  }
}

/** The error for a caller when a retry cannot help. */
function permanentFailure(error: unknown): unknown {
  return error instanceof DatabaseTimeout || isRefusal(error) ? databaseUnavailable(error) : toWriteError(error)
}

/**
 * Stops waiting for work that took too long. If the work still runs one second later, the connections that received nothing in
 * this second are ended, because their server may be lost.
 */
function abandon({ abandoned, sockets }: Pool, work: Promise<unknown>, reason: DatabaseTimeout, before: unknown): void {
  reason.cause ??= before
  abandoned.add(work)
  const isOver = () => abandoned.delete(work)
  work.then(isOver, isOver)
  sockets.endSilent(() => abandoned.size > 0)
}

/**
 * Limits the time of each statement of a transaction. This limit overrides the setting of the session.
 * @param lockTimeoutMs how long the transaction waits for each lock; by default as long as a statement may take
 * @returns the process id of the server's backend
 */
async function limitTime(sql: Transaction, timeoutMs: number, lockTimeoutMs?: number): Promise<number> {
  // postgres.js sends a statement when it is awaited. With `execute`, the limits are sent before the first statement of the work.
  // The minimum is 1 ms, because the server reads 0 as no limit.
  const set = (name: string, milliseconds: number) =>
    sql.unsafe(`SET LOCAL ${name} = ${Math.max(1, Math.ceil(milliseconds))}`).execute()
  const [{ state }] = await Promise.all([
    set('statement_timeout', timeoutMs),
    lockTimeoutMs === undefined ? undefined : set('lock_timeout', lockTimeoutMs),
  ])
  return state.pid
}

/** The hosts of a database's URL. The result has no name and no password, so that messages may contain it. */
function placeOf(url: string): string {
  // The hosts begin after the last @: a password may contain an unencoded @.
  return /^[a-z]+:\/\/(?:[^?#]*@)?([^/?#]*)/.exec(url)?.[1] ?? 'the database'
}
