import { setTimeout as sleep } from 'node:timers/promises'
import postgres, { type Sql, type TransactionSql } from 'postgres'
import { ApiError, codeOf } from '../../errors.ts'
import { toWriteError } from '../write-error.ts'
import { begin, Warnings } from './begin.ts'
import {
  databaseUnavailable,
  isConflict,
  isConnectionLoss,
  isPoolers,
  isReadOnly,
  isRefusal,
  TookTooLong,
  Unconfirmed,
  withinTime,
  writeUnconfirmed,
} from './failures.ts'
import { Snapshot } from './snapshot.ts'
import { Sockets } from './sockets.ts'
import { takeTls } from './tls.ts'

/** Milliseconds that a request waits for the database at most. PostgreSQL's own timeouts do not end a commit's wait. */
const requestPatience = 5000
/** Connections of one process: of requests, and of lists that last as long as their readers do. */
const mostConnections = 10
export const mostSnapshots = 5
/** Seconds. */
const connectTimeout = 2
const idleTimeout = 300
/** SQLSTATE undefined_function. */
const undefinedFunction = '42883'

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
  readonly #url: string
  readonly #patience: number
  readonly #sockets: Sockets
  readonly #snapshotSockets: Sockets
  readonly #warnings = new Warnings()
  #sql: Sql<Types>
  /** Apart, so that readers who take their time leave the others theirs. */
  #snapshots: Sql<Types>
  #isPooled: boolean

  /**
   * @param url `postgres://…`; several hosts and `target_session_attrs=read-write` follow a failover
   * @param patience milliseconds that whoever asks waits for it at most
   * @param isPooled whether it is known that there is a pooler before the server
   * @throws StorageError when what the URL says of TLS is not understood
   */
  constructor(url: string, patience = requestPatience, isPooled = false) {
    const { url: withoutTls, tls } = takeTls(url)
    this.#url = withoutTls
    this.#patience = patience
    this.#isPooled = isPooled
    this.place = placeOf(url)
    this.#sockets = new Sockets(this.place, tls)
    this.#snapshotSockets = new Sockets(this.place, tls)
    this.#sql = this.#connect(this.#sockets, mostConnections)
    this.#snapshots = this.#connect(this.#snapshotSockets, mostSnapshots)
  }

  /** Whether there is a pooler before the server, as far as is known: then nothing is left to a session. */
  get isPooled(): boolean {
    return this.#isPooled
  }

  /**
   * Looks whether there is a pooler before the server: it tells its clients of a process that is not the server's.
   * @throws ApiError 503 when the database does not answer in time
   */
  async lookForPooler(): Promise<void> {
    try {
      const rows = await this.read((sql) => sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`)
      if (rows[0]?.pid !== rows.state.pid) this.#expectPooler()
    } catch (error) {
      // Another engine without this function: whether statements get lost is seen when it happens.
      if (codeOf(error) !== undefinedFunction) throw error
    }
  }

  /**
   * Reads, and again where a connection was lost.
   * @throws ApiError 503 when the database does not answer in time
   */
  read<T>(work: (sql: Queries) => Promise<T>): Promise<T> {
    return this.#persist(
      () => work(this.#sql),
      () => true,
    )
  }

  /**
   * Does a transaction, and again where it could not be serialised, or a connection was lost before its commit. So
   * `work` may run several times, and keeps its results to itself. What it throws undoes it.
   * @param patience milliseconds that it may take, where that is more than for a request
   * @throws ApiError 503: `database_unavailable` when nothing was written, `write_unconfirmed` when that is not known
   */
  async transaction<T>(work: (sql: Transaction) => Promise<T>, patience = this.#patience): Promise<T> {
    let isCommitting = false
    let isOver = false
    const attempt = async (): Promise<T> => {
      isCommitting = false
      let done: { readonly value: T } | undefined
      await begin(this.#sql, this.#warnings, async (sql) => {
        if (patience > this.#patience || this.#isPooled) await limitTime(sql, patience)
        const value = isOver ? undefined : { value: await work(sql) }
        // Whoever waited has been told that nothing was written.
        if (isOver) throw new TookTooLong('the transaction took too long')
        done = value
        return () => {
          isCommitting = true
        }
      })
      if (!done) throw new Error('the transaction had no result')
      return done.value
    }
    try {
      return await this.#persist(attempt, (error) => isConflict(error) || !isCommitting, patience)
    } catch (error) {
      isOver = true
      if (error instanceof Unconfirmed) throw writeUnconfirmed(error)
      const isUnknown = isCommitting && error instanceof ApiError && error.code === 'database_unavailable'
      throw isUnknown && !isConflict(error.cause) ? writeUnconfirmed(error.cause) : error
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
      // One that waits for a connection waits for readers who take their time: no reason to end others' connections.
      const sql = await this.#persist(
        open,
        () => true,
        this.#patience,
        () => {},
      )
      if (this.#isPooled) await limitTime(sql, this.#patience)
      for await (const item of read(sql)) {
        yield item
        tried.at(-1)?.check()
      }
    } finally {
      for (const snapshot of tried) snapshot.end()
    }
  }

  /** Tries until it is done, or there is no point, or no time left. */
  async #persist<T>(
    attempt: () => Promise<T>,
    mayRetry: (error: unknown) => boolean,
    patience = this.#patience,
    onTooLong = () => this.#sockets.endSilent(() => this.#endAbandoned()),
  ): Promise<T> {
    const end = performance.now() + patience
    let before: unknown
    for (let tries = 0; ; tries++) {
      try {
        return await withinTime(attempt(), end - performance.now())
      } catch (error) {
        if (error instanceof TookTooLong) {
          // What the tries before it failed with tells more than that the last one had no time left.
          error.cause ??= before
          onTooLong()
        }
        before = error
        if (!isConflict(error) && !isConnectionLoss(error)) throw lastingFailure(error)
        this.#followServer(error)
        const pause = Math.min(500, 10 * 2 ** tries) * (0.5 + Math.random())
        if (!mayRetry(error) || performance.now() + pause >= end) throw databaseUnavailable(error)
        await sleep(pause)
      }
    }
  }

  /** Takes from a failure what it tells of the server: that there is a pooler before it, or that it is a standby now. */
  #followServer(error: unknown): void {
    if (isPoolers(error)) this.#expectPooler()
    if (isReadOnly(error)) this.#sockets.endAll()
  }

  /**
   * Ends the commits on the server that wait for a standby for longer than anybody here waits for them: nobody reads their
   * answer, and they would take one connection after the other until the standby is back. What they wrote stays.
   */
  #endAbandoned(): void {
    this.#sql`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE application_name = current_setting('application_name') AND datname = current_database()
        AND usename = current_user AND wait_event = 'SyncRep' AND state_change < now() - INTERVAL '5 seconds'`
      // Another engine has neither these commits nor the function.
      .catch(() => undefined)
  }

  /**
   * From now on there is a pooler: one server after the other may do what one connection asks for, so that none of them
   * knows its prepared statements or its settings. What is under way has a second to end.
   */
  #expectPooler(): void {
    if (this.#isPooled) return
    this.#isPooled = true
    const before = [this.#sql, this.#snapshots]
    this.#sql = this.#connect(this.#sockets, mostConnections)
    this.#snapshots = this.#connect(this.#snapshotSockets, mostSnapshots)
    for (const pool of before) void pool.end({ timeout: 1 })
  }

  /** Makes a pool of connections, none of which is made before it is needed. */
  #connect(sockets: Sockets, max: number): Sql<Types> {
    const isChoosing = this.place.includes(',') || this.#url.includes('target_session_attrs=')
    const options = {
      max,
      connect_timeout: connectTimeout,
      idle_timeout: idleTimeout,
      backoff: false,
      socket: () => sockets.open(),
      // The sockets begin it.
      ssl: false,
      // Its `read-write` takes a standby of PostgreSQL 14 and later for a server that writes.
      ...(isChoosing && { target_session_attrs: 'primary' as const }),
      // Asks nothing of the engine's catalogue that not every engine has.
      fetch_types: false,
      onnotice: this.#warnings.note,
      types: { bigint: { to: 20, from: [20], parse: Number, serialize: String } },
      connection: {
        application_name: 'conservatory',
        ...(!this.#isPooled && { statement_timeout: this.#patience }),
      },
      // An operator who knows the pooler may say `prepare=true` in the URL.
      ...(this.#isPooled && !/[?&]prepare=/.test(this.#url) && { prepare: false }),
    }
    // The sockets choose the host; the client library is shown one.
    return postgres(this.#url.replace(this.place, this.place.split(',')[0] ?? this.place), options)
  }

  /**
   * Ends its connections. The client library never calls those ended that were once lost, so that it takes all of the time.
   * @param patience seconds that what runs may still take
   */
  async close(patience = 1): Promise<void> {
    await Promise.all([this.#sql.end({ timeout: patience }), this.#snapshots.end({ timeout: patience })])
    // What the other side does not close.
    this.#sockets.endAll()
    this.#snapshotSockets.endAll()
  }
}

/** What a caller is told of a failure that no further try mends. */
function lastingFailure(error: unknown): unknown {
  return error instanceof TookTooLong || isRefusal(error) ? databaseUnavailable(error) : toWriteError(error)
}

/** Ends statements of a transaction that take longer than so many milliseconds, whatever the session has been told. */
async function limitTime(sql: Transaction, patience: number): Promise<void> {
  await sql.unsafe(`SET LOCAL statement_timeout = ${patience}`)
}

/** The hosts of a database's URL, as they may be shown. */
function placeOf(url: string): string {
  // Up to the last @: a password may hold one that is not encoded.
  return /^[a-z]+:\/\/(?:[^?#]*@)?([^/?#]*)/.exec(url)?.[1] ?? 'the database'
}
