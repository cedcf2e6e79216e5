import type { PostgresDatabase, Transaction } from '../storage/postgres/database.ts'
import { PostgresGroupCommit } from '../storage/postgres/group-commit.ts'
import { livingReplicas, Replica } from '../storage/postgres/replicas.ts'
import { runScript } from '../storage/postgres/scripts.ts'
import { type DaySum, type EndedRequest, sumsOf } from './day-sums.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import { removeOldRows, rowOfEntry } from './rows.ts'
import { type InterruptedRequest, type Spent, SpentTokens, storedTokens } from './spent.ts'

/** The time for which entries are buffered before they are written. */
const flushDelayMs = 200
/** Maximum buffered entries of `record`. Without an answer of the database, the oldest entries and their tokens are dropped. */
const maxBuffered = 10_000
/** Maximum buffered entries that are written together. */
const maxFlushEntries = 500

/** One write of a request. */
interface Write {
  readonly kind: 'begun' | 'finished' | 'ended'
  readonly entry: LedgerEntry
}

/** The ledger in PostgreSQL. Each replica sends heartbeats; other replicas end the running requests of a dead replica. */
export class PostgresLedger implements Ledger {
  readonly #database: PostgresDatabase
  readonly #writes: PostgresGroupCommit<Write, true>
  readonly #replica: Replica
  #buffered: Write[] = []
  /** Ends whose write has failed: at most one for each request that was in flight. */
  #failedEnds: Write[] = []
  /** Resolves when all failed ends are written; undefined if there are no failed ends. */
  #caughtUp: { readonly promise: Promise<void>; readonly resolve: () => void; ends: number } | undefined
  /** The number of failed ends and buffered entries that are being written. */
  #flushing = 0
  /** The batches of all flushes that are being written. */
  readonly #writing = new Set<Promise<void>>()
  #timer: NodeJS.Timeout | undefined

  constructor(database: PostgresDatabase) {
    this.#database = database
    this.#replica = new Replica(database, () => this.#interruptRunning())
    this.#writes = new PostgresGroupCommit(database, { commit: (sql, writes) => this.#write(sql, writes) })
  }

  async begin(entry: LedgerEntry): Promise<void> {
    await this.#replica.live()
    // A request that begins first writes the failed ends that wait. So an outage leaves at most one failed end for each request
    // that was in flight when the outage began.
    if (this.#failedEnds.length > 0) await this.flush()
    await this.#writes.add({ kind: 'begun', entry })
  }

  async finish(entry: LedgerEntry): Promise<void> {
    const write: Write = { kind: 'finished', entry }
    try {
      await this.#writes.add(write)
    } catch (error) {
      // The spent tokens must be recorded when the database is back.
      this.#caughtUp ??= { ...Promise.withResolvers<void>(), ends: 0 }
      this.#caughtUp.ends++
      this.#failedEnds.push(write)
      this.#flushSoon()
      throw error
    }
  }

  /** Resolves when all failed ends and their spent tokens are written. The buffer of `record` may still have entries. */
  async caughtUp(): Promise<void> {
    await this.#caughtUp?.promise
  }

  record(entry: LedgerEntry): void {
    if (this.#buffered.length >= maxBuffered) this.#buffered.shift()
    this.#buffered.push({ kind: 'ended', entry })
    this.#flushSoon()
  }

  async spent(subject: string, fromDay: string, toDay: string): Promise<number> {
    await this.flush()
    return this.#database.read((sql) => runScript(sql, storedTokens(subject, fromDay, toDay)))
  }

  async interruptRunning(): Promise<number> {
    await this.#replica.live()
    return this.#interruptRunning()
  }

  #interruptRunning(): Promise<number> {
    return this.#database.transaction(async (sql) => {
      const ended = await sql<InterruptedRequest[]>`
        UPDATE requests SET state = 'interrupted', prompt_tokens = reserved_tokens
        WHERE state = 'running' AND (replica IS NULL OR replica NOT IN (${livingReplicas(sql)}))
        RETURNING account, key_id AS "keyId", maker, created, reserved_tokens AS tokens`
      const spent = new SpentTokens()
      for (const row of ended) spent.count(row, row.tokens)
      await writeSpent(sql, spent)
      return ended.length
    })
  }

  async addToDaySums(maxRequests: number): Promise<number> {
    return this.#database.transaction(async (sql) => {
      // `SKIP LOCKED` leaves out requests that another replica is summing.
      const ended = await sql<EndedRequest[]>`
        WITH unsummed AS (
          SELECT id FROM requests WHERE summed = 0 AND state <> 'running' ORDER BY account, created LIMIT ${maxRequests}
          FOR UPDATE SKIP LOCKED
        )
        UPDATE requests SET summed = 1 FROM unsummed WHERE requests.id = unsummed.id
        RETURNING account, created, key_prefix, model, character, prompt_tokens, completion_tokens, state`
      await writeDaySums(sql, sumsOf(ended))
      return ended.length
    })
  }

  prune(before: number, maxRows: number): Promise<number> {
    return this.#database.transaction((sql) => runScript(sql, removeOldRows(before, maxRows)))
  }

  async flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const earlier = [...this.#writing]
    // The entries are written in batches, so a request that ends meanwhile waits for only one batch.
    for (let left = this.#failedEnds.length + this.#buffered.length; left > 0; left -= maxFlushEntries) {
      const count = Math.min(left, maxFlushEntries)
      const ends = this.#failedEnds.splice(0, count)
      const written = this.#writeBuffered(ends, this.#buffered.splice(0, count - ends.length))
      this.#writing.add(written)
      await written.finally(() => this.#writing.delete(written))
    }
    await Promise.allSettled(earlier)
  }

  async #writeBuffered(ends: readonly Write[], others: readonly Write[]): Promise<void> {
    const writes = [...ends, ...others]
    this.#flushing += writes.length
    try {
      await Promise.all(writes.map((write) => this.#writes.add(write)))
      this.#catchUp(ends.length)
    } catch (error) {
      // The entries go back into the buffers, before newer entries. A row that was written despite the error is not repeated.
      this.#failedEnds = [...ends, ...this.#failedEnds]
      this.#buffered = [...others, ...this.#buffered].slice(-maxBuffered)
      this.#flushSoon()
      throw error
    } finally {
      this.#flushing -= writes.length
    }
  }

  /** How many entries wait to be written. */
  readonly queued = (): number => this.#failedEnds.length + this.#buffered.length + this.#flushing

  /** Stops all retries and the heartbeats. To be called before the database is closed. */
  stop(): Promise<void> {
    clearTimeout(this.#timer)
    return this.#replica.leave()
  }

  async #write(sql: Transaction, writes: readonly Write[]): Promise<readonly true[]> {
    const spent = new SpentTokens()
    const rows = (kind: Write['kind']) => writes.filter((write) => write.kind === kind).map(({ entry }) => entry)
    const added = await insert(sql, [...rows('begun'), ...rows('ended')], this.#replica.id)
    for (const entry of rows('ended')) {
      if (added.has(entry.id)) spent.count(entry, entry.promptTokens + entry.completionTokens)
    }
    const finished = await finish(sql, rows('finished'))
    for (const entry of rows('finished')) {
      if (finished.has(entry.id)) spent.count(entry, entry.promptTokens + entry.completionTokens)
    }
    await writeSpent(sql, spent)
    return writes.map(() => true)
  }

  /** Counts failed ends that have been written. When no failed end is left, `caughtUp` resolves. */
  #catchUp(ends: number): void {
    if (!this.#caughtUp || ends === 0) return
    this.#caughtUp.ends -= ends
    if (this.#caughtUp.ends > 0) return
    this.#caughtUp.resolve()
    this.#caughtUp = undefined
  }

  #flushSoon(): void {
    if (this.#timer !== undefined) return
    this.#timer = setTimeout(() => void this.flush().catch(() => undefined), flushDelayMs)
    this.#timer.unref()
  }
}

/** Inserts the rows that do not exist yet. @returns their ids */
async function insert(
  sql: Transaction,
  entries: readonly LedgerEntry[],
  replica: string,
): Promise<ReadonlySet<string>> {
  if (entries.length === 0) return new Set()
  const rows = await sql<{ id: string }[]>`
    INSERT INTO requests (id, account, key_id, key_prefix, model, model_used, character, created, microsecond,
      reserved_tokens, prompt_tokens, completion_tokens, tokens_exact, first_token_ms, total_ms, retries, state, upstream_truncated, maker, replica)
    SELECT x.*, ${replica} FROM json_to_recordset(${toJson(entries)}::text::json) AS x(
      id text, account bigint, key_id text, key_prefix text, model text, model_used text, character text,
      created bigint, microsecond bigint, reserved_tokens bigint, prompt_tokens bigint, completion_tokens bigint, tokens_exact bigint,
      first_token_ms bigint, total_ms bigint, retries bigint, state text, upstream_truncated text, maker text)
    ON CONFLICT DO NOTHING RETURNING id`
  return new Set(rows.map(({ id }) => id))
}

/** Ends the rows that are still running. @returns their ids */
async function finish(sql: Transaction, entries: readonly LedgerEntry[]): Promise<ReadonlySet<string>> {
  if (entries.length === 0) return new Set()
  const rows = await sql<{ id: string }[]>`
    UPDATE requests SET model_used = x.model_used, prompt_tokens = x.prompt_tokens,
      completion_tokens = x.completion_tokens, tokens_exact = x.tokens_exact, first_token_ms = x.first_token_ms,
      total_ms = x.total_ms, retries = x.retries, state = x.state, upstream_truncated = x.upstream_truncated
    FROM json_to_recordset(${toJson(entries)}::text::json) AS x(
      id text, model_used text, prompt_tokens bigint, completion_tokens bigint, tokens_exact bigint,
      first_token_ms bigint, total_ms bigint, retries bigint, state text, upstream_truncated text)
    WHERE requests.id = x.id AND requests.state = 'running' RETURNING requests.id`
  return new Set(rows.map(({ id }) => id))
}

/** Adds spent tokens in sorted order, so that two replicas never deadlock. */
async function writeSpent(sql: Transaction, spent: SpentTokens): Promise<void> {
  const place = ({ day, subject }: Spent) => day + subject
  const rows = spent.sums.toSorted((a, b) => Number(place(a) > place(b)) - Number(place(a) < place(b)))
  if (rows.length === 0) return
  await sql`
    INSERT INTO spend (subject, day, tokens)
    SELECT subject, day, tokens
    FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS x(subject text, day text, tokens bigint)
    ON CONFLICT (subject, day) DO UPDATE SET tokens = spend.tokens + excluded.tokens`
}

/**
 * Adds to the sums of days. `sums` must be sorted by key, as the result of `sumsOf` is. Then all replicas lock the rows in the
 * same order, and never deadlock.
 */
async function writeDaySums(sql: Transaction, sums: readonly DaySum[]): Promise<void> {
  if (sums.length === 0) return
  await sql`
    INSERT INTO usage_days
      (account, day, digest, key_prefix, model, character, requests, prompt_tokens, completion_tokens, failed)
    SELECT * FROM json_to_recordset(${JSON.stringify(sums)}::text::json) AS x(
      account bigint, day text, digest text, key_prefix text, model text, character text,
      requests bigint, prompt_tokens bigint, completion_tokens bigint, failed bigint)
    ON CONFLICT (account, day, digest) DO UPDATE SET requests = usage_days.requests + excluded.requests,
      prompt_tokens = usage_days.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = usage_days.completion_tokens + excluded.completion_tokens,
      failed = usage_days.failed + excluded.failed`
}

function toJson(entries: readonly LedgerEntry[]): string {
  return JSON.stringify(entries.map((entry) => rowOfEntry(entry, withoutNul)))
}

/** A text that PostgreSQL can store: names come from callers and may have NUL or lone surrogates. */
export function withoutNul(text: string): string {
  return text.replaceAll('\0', '\uFFFD').toWellFormed()
}
