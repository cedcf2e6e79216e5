import { setTimeout as sleep } from 'node:timers/promises'
import postgres, { type Sql, type TransactionSql } from 'postgres'
import { ApiError, codeOf } from '../../errors.ts'
import type { Metric } from '../../instruments.ts'
import { answerTimes } from '../answer-times.ts'
import { toWriteError } from '../write-error.ts'
import { askingAccount, inTimeLeft } from './asker.ts'
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
import { Places } from './places.ts'
import { poolMetrics } from './pool-use.ts'
import { Snapshot } from './snapshot.ts'
import { Sockets } from './sockets.ts'
import { takeTls } from './tls.ts'

/** Milliseconds that a request waits for the database at most. PostgreSQL's own timeouts do not end a commit's wait. */
const requestPatience = 5000
/** Connections for reads: apart, so that reads never wait for those that wait for a lock, or for a standby. */
const readConnections = 5
/** Connections of lanes, one for each: plants, the ledger, and limits. */
const laneConnections = 3
/** Connections of all other transactions. */
const otherConnections = 7
/** How many of those one account may have. */
const mostOfOneAccount = 2
/** Connections that one process has at most, whatever happens. */
export const mostConnections = readConnections + laneConnections + otherConnections
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

/** What a transaction is part of. */
export interface Turn {
  /** The lane that does one transaction at a time: it has a connection of its own. */
  readonly lane?: object
  /** What shares two connections, where it is not the account that asks. */
  readonly sharer?: object
  /** Milliseconds that each lock is waited for at most; then the transaction is done again. */
  readonly lockPatience?: number
  /** Is called right before each commit. What it throws undoes the transaction. */
  beforeCommit?(): void
  /** Is called when a commit is over, however it ended. */
  afterCommit?(): void
  /** Ends the wait when it rejects, with a TookTooLong. */
  readonly until?: Promise<never>
}

/** One try of a transaction, while it has a connection. */
interface Run {
  /** The server's process; undefined until it has answered. */
  pid: number | undefined
  /** By `performance.now()`. */
  readonly began: number
}

/** What is tried until it is done. */
interface Tried<T> {
  readonly attempt: () => Promise<T>
  readonly mayRetry: (error: unknown) => boolean
  readonly until: Promise<never> | undefined
}

/** Connections for one purpose. */
interface Pool {
  sql: Sql<Types>
  readonly most: number
  readonly sockets: Sockets
  /** What nobody waits for any more, and still has a connection. */
  readonly abandoned: Set<Promise<unknown>>
}

/** A PostgreSQL database, or an engine that speaks its protocol. */
export class PostgresDatabase {
  /** Where it is, without a name or a password. */
  readonly place: string
  /** Milliseconds that a request waits for it at most. */
  readonly patience: number
  readonly #url: string
  readonly #warnings = new Warnings()
  readonly #lanes = new Places(laneConnections, 1)
  readonly #others = new Places(otherConnections, mostOfOneAccount)
  readonly #reads: Pool
  readonly #writes: Pool
  /** Reads that run, and those that wait for a connection. */
  #reading = 0
  readonly #times = answerTimes()
  /** How long it takes, and which of its connections are in use. */
  readonly metrics: readonly Metric[] = [
    this.#times,
    ...poolMetrics(() => [
      {
        name: 'reads',
        most: readConnections,
        used: Math.min(this.#reading, readConnections),
        waiting: Math.max(0, this.#reading - readConnections),
      },
      { name: 'lanes', ...this.#lanes.use },
      { name: 'others', ...this.#others.use },
    ]),
  ]
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
    this.patience = patience
    this.#isPooled = isPooled
    this.place = placeOf(url)
    this.#reads = this.#pool(readConnections, new Sockets(this.place, tls))
    this.#writes = this.#pool(laneConnections + otherConnections, new Sockets(this.place, tls))
  }

  /** Whether there is a pooler before the server, as far as is known: then nothing is left to a session. */
  get isPooled(): boolean {
    return this.#isPooled
  }

  /** The ports on this machine of its connections: a server tells of them. */
  get ports(): readonly number[] {
    return this.#pools.flatMap(({ sockets }) => sockets.ports)
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
    const attempt = async () => {
      const began = performance.now()
      this.#reading++
      try {
        const answer = await work(this.#reads.sql)
        this.#noteServed(this.#reads)
        return answer
      } finally {
        this.#reading--
        this.#count('read', began)
      }
    }
    return this.#persist(this.#reads, attempt, () => true)
  }

  /**
   * Does a transaction, and again where it could not be serialised, or a connection was lost before its commit. So
   * `work` may run several times, and keeps its results to itself. What it throws undoes it.
   * @param patience milliseconds that it may take, where that is more than for a request
   * @throws ApiError 503: `database_unavailable` when nothing was written, `write_unconfirmed` when that is not known
   */
  async transaction<T>(work: (sql: Transaction) => Promise<T>, patience = this.patience, turn: Turn = {}): Promise<T> {
    let isCommitting = false
    let isOver = false
    let run: Run | undefined
    const refuseIfOver = () => {
      // The caller has been told that nothing was written.
      if (isOver) throw new TookTooLong('the transaction took too long')
    }
    const attempt = async (end: number): Promise<T> => {
      isCommitting = false
      const leave = await this.#enter(turn, end)
      const began = performance.now()
      run = { pid: undefined, began }
      let done: { readonly value: T } | undefined
      try {
        await begin(this.#writes.sql, this.#warnings, async (sql) => {
          refuseIfOver()
          const limited = limitTime(sql, end - performance.now(), turn.lockPatience).then((pid) => {
            if (run) run.pid = pid
            this.#noteServed(this.#writes)
          })
          const [value] = await Promise.all([work(sql), limited])
          refuseIfOver()
          done = { value }
          return () => {
            turn.beforeCommit?.()
            isCommitting = true
          }
        })
      } finally {
        run = undefined
        if (isCommitting) turn.afterCommit?.()
        this.#count('write', began)
        leave()
      }
      if (!done) throw new Error('the transaction had no result')
      return done.value
    }
    const mayRetry = (error: unknown) => isConflict(error) || !isCommitting
    try {
      return await this.#persist(this.#writes, attempt, mayRetry, patience, turn.until)
    } catch (error) {
      isOver = true
      if (run) this.#endOnServer(run)
      if (error instanceof Unconfirmed) throw writeUnconfirmed(error)
      const isUnknown = isCommitting && error instanceof ApiError && error.code === 'database_unavailable'
      throw isUnknown && !isConflict(error.cause) ? writeUnconfirmed(error.cause) : error
    }
  }

  /** Notes that a pool's host serves. A pooler keeps what it is asked while its server is gone: it is left once it ends a connection. */
  #noteServed({ sockets }: Pool): void {
    if (!this.#isPooled) sockets.served()
  }

  /** Counts how long a try took, whoever has given up on it. @param began by `performance.now()` */
  #count(operation: 'read' | 'write', began: number): void {
    this.#times.record((performance.now() - began) / 1000, 'postgresql', operation)
  }

  /** Takes a place for a transaction, which it keeps until it is really over, whoever has given up on it. @throws TookTooLong */
  #enter({ lane, sharer }: Turn, end: number): Promise<() => void> {
    const left = end - performance.now()
    return lane ? this.#lanes.enter(lane, left) : this.#others.enter(sharer ?? askingAccount(), left)
  }

  /**
   * Reads one moment of the database for as long as it takes, on a connection of its own: for commands, since readers of
   * replies may take their time.
   * @throws ApiError 503 when the database does not answer in time, and what it says when the connection is lost
   */
  async *snapshot<T>(read: (sql: Queries) => AsyncIterable<T>): AsyncIterable<T> {
    const tried: Snapshot<Types>[] = []
    try {
      const open = () => {
        const snapshot = new Snapshot(this.#reads.sql)
        tried.push(snapshot)
        return snapshot.opened
      }
      const sql = await this.#persist(this.#reads, open, () => true)
      if (this.#isPooled) await limitTime(sql, this.patience)
      for await (const item of read(sql)) {
        yield item
        tried.at(-1)?.check()
      }
    } finally {
      for (const snapshot of tried) snapshot.end()
    }
  }

  /** Tries until it is done, or there is no point, or no time left: of the whole request, where one asks. */
  #persist<T>(
    pool: Pool,
    attempt: (end: number) => Promise<T>,
    mayRetry: (error: unknown) => boolean,
    patience = this.patience,
    until?: Promise<never>,
  ): Promise<T> {
    return inTimeLeft(patience, async (left) => {
      if (left <= 0) throw databaseUnavailable(new TookTooLong('the request has waited for long enough'))
      const end = performance.now() + left
      return this.#tryUntil(end, pool, { attempt: () => attempt(end), mayRetry, until })
    })
  }

  async #tryUntil<T>(end: number, pool: Pool, { attempt, mayRetry, until }: Tried<T>): Promise<T> {
    let before: unknown
    for (let tries = 0; ; tries++) {
      const trying = attempt()
      try {
        return await withinTime(sooner(trying, until), end - performance.now())
      } catch (error) {
        // What the tries before it failed with tells more than that the last one had no time left.
        if (error instanceof TookTooLong) abandon(pool, trying, error, before)
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
    if (isReadOnly(error)) for (const { sockets } of this.#pools) sockets.endAll()
  }

  /**
   * Ends on the server what nobody waits for any more: a transaction of ours that waits for a lock or for a standby, and
   * commits of replicas that are no more. They would take one connection after the other until the standby is back. What a
   * commit wrote stays.
   */
  #endOnServer({ pid, began }: Run): void {
    // Half of its age: the same process may have begun the next one by now.
    const age = (performance.now() - began) / 2
    this.#reads.sql`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE application_name = current_setting('application_name') AND datname = current_database()
        AND usename = current_user AND (
          (wait_event = 'SyncRep' AND state_change < now() - INTERVAL '5 seconds')
          OR (pid = ${this.#isPooled ? 0 : (pid ?? 0)} AND xact_start < now() - ${age}::float8 * INTERVAL '1 millisecond')
        )`
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
    for (const pool of this.#pools) {
      const before = pool.sql
      pool.sql = this.#connect(pool.sockets, pool.most)
      void before.end({ timeout: 1 })
    }
  }

  get #pools(): readonly Pool[] {
    return [this.#reads, this.#writes]
  }

  #pool(most: number, sockets: Sockets): Pool {
    return { sql: this.#connect(sockets, most), most, sockets, abandoned: new Set() }
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
        ...(!this.#isPooled && { statement_timeout: this.patience }),
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
    await Promise.all(this.#pools.map(({ sql }) => sql.end({ timeout: patience })))
    // What the other side does not close.
    for (const { sockets } of this.#pools) sockets.endAll()
  }
}

/** What a caller is told of a failure that no further try mends. */
function lastingFailure(error: unknown): unknown {
  return error instanceof TookTooLong || isRefusal(error) ? databaseUnavailable(error) : toWriteError(error)
}

function sooner<T>(work: Promise<T>, until: Promise<never> | undefined): Promise<T> {
  return until ? Promise.race([work, until]) : work
}

/** Leaves alone what took too long. A connection that says nothing for a second more has lost its server, and is ended. */
function abandon({ abandoned, sockets }: Pool, work: Promise<unknown>, reason: TookTooLong, before: unknown): void {
  reason.cause ??= before
  abandoned.add(work)
  const isOver = () => abandoned.delete(work)
  work.then(isOver, isOver)
  sockets.endSilent(() => abandoned.size > 0)
}

/**
 * Ends statements of a transaction that take longer than so many milliseconds, whatever the session has been told.
 * @param lockPatience milliseconds that each lock is waited for; as long as the statement without it
 * @returns the number of the server's process
 */
async function limitTime(sql: Transaction, patience: number, lockPatience?: number): Promise<number> {
  // Sent at once, before whatever is asked next. 0 would be no limit.
  const set = (name: string, milliseconds: number) =>
    sql.unsafe(`SET LOCAL ${name} = ${Math.max(1, Math.ceil(milliseconds))}`).execute()
  const [{ state }] = await Promise.all([
    set('statement_timeout', patience),
    lockPatience === undefined ? undefined : set('lock_timeout', lockPatience),
  ])
  return state.pid
}

/** The hosts of a database's URL, as they may be shown. */
function placeOf(url: string): string {
  // Up to the last @: a password may hold one that is not encoded.
  return /^[a-z]+:\/\/(?:[^?#]*@)?([^/?#]*)/.exec(url)?.[1] ?? 'the database'
}
