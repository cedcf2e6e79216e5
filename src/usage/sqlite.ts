import type { Database, Statement } from 'better-sqlite3'
import type { GroupCommit } from '../storage/group-commit.ts'
import { takeBriefly } from '../storage/prune.ts'
import { runScript } from '../storage/scripts.ts'
import { inTransaction } from '../storage/write-lock.ts'
import { type DaySum, type EndedRequest, sumsOf } from './day-sums.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import { removeOldRows, rowOfEntry, type WrittenRow } from './rows.ts'
import { type InterruptedRequest, SpentTokens, storedTokens } from './spent.ts'

/** The time for which entries are buffered before they are written. */
const flushDelayMs = 200
/** Maximum buffered entries of `record`. While the disk is full, the oldest entries are dropped, but their tokens count. */
const maxBuffered = 10_000

/** The columns in the order of the fields of `rowOfEntry`. */
const columns = `
  id, account, key_id, key_prefix, model, model_used, character, created, microsecond, reserved_tokens,
  prompt_tokens, completion_tokens, tokens_exact, first_token_ms, total_ms, retries, state, upstream_truncated, maker, summed`

/** Values in the order of the statement's parameters: named parameters take more CPU time. */
type Values = (string | number | null)[]

/** The ledger in SQLite. Commits survive a crash of the process. A power cut may undo the latest (docs/decisions/0016). */
export class SqliteLedger implements Ledger {
  readonly #database: Database
  readonly #commit: GroupCommit
  readonly #insert: Statement<Values>
  readonly #finish: Statement<Values>
  readonly #spend: Statement<[string, string, number]>
  readonly #unsummed: Statement<[number], EndedRequest & { readonly rowid: number }>
  readonly #addToDay: Statement<[DaySum]>
  readonly #markSummed: Statement<[number]>
  /** Entries that callers wait for, until a commit takes them. */
  #awaited = new Batch()
  #awaitedWrite: Promise<void> | undefined
  /** Entries that no caller waits for: requests without a limit for a day or a month, and ends whose write has failed. */
  #buffered = new Batch()
  /** Batches that are being written. */
  readonly #inProgress = new Set<Batch>()
  #timer: NodeJS.Timeout | undefined

  /** @param commit a group commit without fsync */
  constructor(database: Database, commit: GroupCommit) {
    this.#database = database
    this.#commit = commit
    this.#insert = database.prepare<Values>(`
      INSERT INTO requests (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (id) DO NOTHING`)
    this.#finish = database.prepare<Values>(`
      UPDATE requests SET model_used = ?, prompt_tokens = ?, completion_tokens = ?, tokens_exact = ?,
        first_token_ms = ?, total_ms = ?, retries = ?, state = ?, upstream_truncated = ?, summed = 1
      WHERE id = ? AND summed = 0`)
    this.#spend = database.prepare(`
      INSERT INTO spend (subject, day, tokens) VALUES (?, ?, ?)
      ON CONFLICT (subject, day) DO UPDATE SET tokens = tokens + excluded.tokens`)
    this.#unsummed = database.prepare(`
      SELECT rowid AS rowid, account, created, key_prefix, model, character, prompt_tokens, completion_tokens, state
      FROM requests INDEXED BY requests_unsummed
      WHERE summed = 0 AND state <> 'running' ORDER BY account, created LIMIT ?`)
    this.#addToDay = database.prepare(`
      INSERT INTO usage_days
        (account, day, digest, key_prefix, model, character, requests, prompt_tokens, completion_tokens, failed)
      VALUES (@account, @day, @digest, @key_prefix, @model, @character, @requests, @prompt_tokens, @completion_tokens, @failed)
      ON CONFLICT (account, day, digest) DO UPDATE SET requests = requests + excluded.requests,
        prompt_tokens = prompt_tokens + excluded.prompt_tokens,
        completion_tokens = completion_tokens + excluded.completion_tokens, failed = failed + excluded.failed`)
    this.#markSummed = database.prepare('UPDATE requests SET summed = 1 WHERE rowid = ?')
  }

  begin(entry: LedgerEntry): Promise<void> {
    // Failed ends are written in the same transaction. If this transaction fails, the request does not begin. So there is at most
    // one failed end for each request that was in flight when writes began to fail.
    if (this.#buffered.finished.length > 0) this.#tryFlush()
    this.#awaited.begun.push(entry)
    return this.#writeSoon()
  }

  finish(entry: LedgerEntry): Promise<void> {
    this.#awaited.end(entry)
    return this.#writeSoon()
  }

  record(entry: LedgerEntry): void {
    if (this.#buffered.begun.length >= maxBuffered) this.#buffered.begun.shift()
    this.#buffered.begun.push(entry)
    this.#buffered.spend(entry)
    this.#flushSoon()
  }

  async spent(subject: string, fromDay: string, toDay: string): Promise<number> {
    // Unwritten entries are added here and not written first: a full disk or a lock must not prevent reading.
    const unwritten = [this.#awaited, this.#buffered, ...this.#inProgress].filter((batch) => !this.#isWritten(batch))
    const written = runScript(this.#database, storedTokens(subject, fromDay, toDay))
    return unwritten.reduce((sum, { spent }) => sum + spent.between(subject, fromDay, toDay), written)
  }

  async interruptRunning(): Promise<number> {
    // Reserved tokens count as used, also in reports.
    const end = this.#database.prepare<[], InterruptedRequest>(`
      UPDATE requests SET state = 'interrupted', prompt_tokens = reserved_tokens WHERE state = 'running'
      RETURNING account, key_id AS keyId, maker, created, reserved_tokens AS tokens`)
    return inTransaction(this.#database, () => {
      const ended = end.all()
      const spent = new SpentTokens()
      for (const request of ended) spent.count(request, request.tokens)
      this.#writeSpent(spent)
      return ended.length
    })
  }

  async addToDaySums(maxRequests: number): Promise<number> {
    // The lock is taken only if there are requests to add.
    if (this.#unsummed.all(1).length === 0) return 0
    return await this.#commit.run(() => takeBriefly(maxRequests, (count) => this.#addSome(count)))
  }

  #addSome(maxRequests: number): number {
    const requests = this.#unsummed.all(maxRequests)
    for (const sum of sumsOf(requests)) this.#addToDay.run(sum)
    for (const { rowid } of requests) this.#markSummed.run(rowid)
    return requests.length
  }

  prune(before: number, maxRows: number): Promise<number> {
    const remove = (count: number) => runScript(this.#database, removeOldRows(before, count))
    return this.#commit.run(() => takeBriefly(maxRows, remove))
  }

  async flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const batch = this.#buffered
    if (batch.size === 0 && batch.spent.sums.length === 0) {
      // An earlier flush may have taken entries that are not committed yet. Commits keep their order, so an empty write waits.
      if (this.#inProgress.size > 0) await this.#commit.run(() => undefined)
      return
    }
    this.#buffered = new Batch()
    this.#inProgress.add(batch)
    try {
      await this.#commit.run(() => this.#write(batch))
    } catch (error) {
      this.#bufferAgain(batch)
      throw error
    } finally {
      this.#inProgress.delete(batch)
    }
  }

  /** How many entries wait to be written. */
  readonly queued = (): number => {
    const batches = [this.#awaited, this.#buffered, ...this.#inProgress]
    return batches.reduce((sum, batch) => (this.#isWritten(batch) ? sum : sum + batch.size), 0)
  }

  /** Awaited entries of one turn of the event loop are one write: their spent tokens are summed before the write. */
  #writeSoon(): Promise<void> {
    this.#awaitedWrite ??= this.#writeAwaited()
    return this.#awaitedWrite
  }

  async #writeAwaited(): Promise<void> {
    let batch: Batch | undefined
    try {
      await this.#commit.run(() => {
        batch = this.#takeAwaited()
        this.#write(batch)
      })
    } catch (error) {
      // If the transaction could not begin, the batch is not taken yet. After any failure, the requests that begin with this batch
      // are refused, and the ends of requests go back into the buffer.
      batch ??= this.#takeAwaited()
      this.#bufferAgain(batch.onlyEnds())
      throw error
    } finally {
      if (batch) this.#inProgress.delete(batch)
    }
  }

  #takeAwaited(): Batch {
    const batch = this.#awaited
    this.#awaited = new Batch()
    this.#awaitedWrite = undefined
    this.#inProgress.add(batch)
    return batch
  }

  /** Puts a failed batch back into the buffer, before newer entries. */
  #bufferAgain(batch: Batch): void {
    const later = this.#buffered
    batch.begun = [...batch.begun, ...later.begun].slice(-maxBuffered)
    batch.finished.push(...later.finished)
    for (const spent of later.spent.sums) batch.spent.add(spent)
    this.#buffered = batch
    if (batch.size > 0) this.#flushSoon()
  }

  #write(batch: Batch): void {
    batch.rollbacksBefore = this.#commit.rollbacks
    const ended: EndedRequest[] = []
    for (const row of batch.begun.map((entry) => rowOfEntry(entry))) {
      const isEnded = row.state !== 'running'
      const isAdded = this.#insert.run(...Object.values(row), isEnded ? 1 : 0).changes > 0
      if (isAdded && isEnded) ended.push(row)
    }
    for (const row of batch.finished.map((entry) => rowOfEntry(entry))) {
      if (this.#finish.run(...endOf(row)).changes > 0) ended.push(row)
    }
    for (const sum of sumsOf(ended)) this.#addToDay.run(sum)
    this.#writeSpent(batch.spent)
  }

  #writeSpent(spent: SpentTokens): void {
    for (const { subject, day, tokens } of spent.sums) this.#spend.run(subject, day, tokens)
  }

  /** Whether the batch is committed. It is known as soon as the transaction ends, before the promise of the commit resolves. */
  #isWritten({ rollbacksBefore }: Batch): boolean {
    return rollbacksBefore === this.#commit.rollbacks
  }

  #flushSoon(): void {
    if (this.#timer !== undefined || !this.#database.open) return
    this.#timer = setTimeout(() => this.#tryFlush(), flushDelayMs)
    this.#timer.unref()
  }

  /** Flushes. A failure is ignored, because a later flush tries again. */
  #tryFlush(): void {
    this.flush().catch(() => undefined)
  }

  /** Stops all retries. To be called before the database is closed. */
  stop(): void {
    clearTimeout(this.#timer)
  }
}

class Batch {
  /** Entries that become new rows: requests that begin, and the whole requests of `record`. */
  begun: LedgerEntry[] = []
  /** Ends of requests that have a row. */
  readonly finished: LedgerEntry[] = []
  readonly spent = new SpentTokens()
  /** The number of rollbacks before the transaction that wrote this batch; undefined until it is written. */
  rollbacksBefore: number | undefined

  get size(): number {
    return this.begun.length + this.finished.length
  }

  /** Adds the end of a request, and its tokens. */
  end(entry: LedgerEntry): void {
    this.finished.push(entry)
    this.spend(entry)
  }

  /** A batch with only the ends of this batch. */
  onlyEnds(): Batch {
    const ends = new Batch()
    for (const entry of this.finished) ends.end(entry)
    return ends
  }

  /** Counts the tokens of an entry. */
  spend(entry: LedgerEntry): void {
    this.spent.count(entry, entry.promptTokens + entry.completionTokens)
  }
}

/** The values of `#finish`. */
function endOf(row: WrittenRow): Values {
  const { id, model_used, prompt_tokens, completion_tokens, tokens_exact, first_token_ms, total_ms } = row
  const used = [prompt_tokens, completion_tokens, tokens_exact]
  return [model_used, ...used, first_token_ms, total_ms, row.retries, row.state, row.upstream_truncated, id]
}
