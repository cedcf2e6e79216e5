import type { Database, Statement } from 'better-sqlite3'
import type { GroupCommit } from '../storage/group-commit.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import { SpentTokens } from './spent.ts'

/** Milliseconds for which recorded entries are gathered. */
const gatheringTime = 200
/** How many are gathered at most; while the disk is full, the oldest go first. */
const mostGathered = 10_000

const columns = `
  id, account, key_id, key_prefix, model, model_used, character, created, reserved_tokens,
  prompt_tokens, completion_tokens, tokens_exact, first_token_ms, total_ms, retries, state`

/** Values in the order of the statement's places: bound by name they cost more. */
type Values = (string | number | null)[]

/** The ledger in SQLite. Its commits outlive the process, but not a power cut (docs/decisions/0016). */
export class SqliteLedger implements Ledger {
  readonly #database: Database
  readonly #commit: GroupCommit
  readonly #insert: Statement<Values>
  readonly #finish: Statement<Values>
  readonly #spend: Statement<[string, string, number]>
  readonly #spent: Statement<[string, string, string], number>
  /** What callers wait for, in this turn. */
  #awaited = new Batch()
  #kept: Promise<void> | undefined
  /** What nobody waits for. */
  #gathered = new Batch()
  #timer: NodeJS.Timeout | undefined

  /** @param commit the group commit whose commits do not wait for the disk */
  constructor(database: Database, commit: GroupCommit) {
    this.#database = database
    this.#commit = commit
    this.#insert = database.prepare<Values>(`
      INSERT INTO requests (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (id) DO NOTHING`)
    this.#finish = database.prepare<Values>(`
      UPDATE requests SET model_used = ?, prompt_tokens = ?, completion_tokens = ?, tokens_exact = ?,
        first_token_ms = ?, total_ms = ?, retries = ?, state = ?
      WHERE id = ?`)
    this.#spend = database.prepare(`
      INSERT INTO spend (subject, day, tokens) VALUES (?, ?, ?)
      ON CONFLICT (subject, day) DO UPDATE SET tokens = tokens + excluded.tokens`)
    this.#spent = database
      .prepare<[string, string, string], number>(
        'SELECT COALESCE(SUM(tokens), 0) FROM spend WHERE subject = ? AND day BETWEEN ? AND ?',
      )
      .pluck()
  }

  begin(entry: LedgerEntry): Promise<void> {
    this.#awaited.begun.push(entry)
    return this.#keep()
  }

  finish(entry: LedgerEntry): Promise<void> {
    this.#awaited.finished.push(entry)
    this.#awaited.spend(entry)
    return this.#keep()
  }

  record(entry: LedgerEntry): void {
    if (this.#gathered.begun.length >= mostGathered) this.#gathered.begun.shift()
    this.#gathered.begun.push(entry)
    this.#gathered.spend(entry)
    this.#flushSoon()
  }

  async spent(subject: string, fromDay: string, toDay: string): Promise<number> {
    // What waits is written first, in this same turn.
    const isWritten = this.flush()
    this.#commit.flush()
    const tokens = this.#spent.get(subject, fromDay, toDay) ?? 0
    await isWritten
    return tokens
  }

  async interruptRunning(): Promise<number> {
    const day = "strftime('%Y-%m-%d', created, 'unixepoch')"
    const upsert = (subject: string) => `
      INSERT INTO spend (subject, day, tokens)
      SELECT ${subject}, ${day}, SUM(reserved_tokens) FROM requests WHERE state = 'running' GROUP BY 1, 2
      ON CONFLICT (subject, day) DO UPDATE SET tokens = tokens + excluded.tokens`
    const interrupt = this.#database.transaction(() => {
      this.#database.exec(upsert("'key:' || key_id"))
      this.#database.exec(upsert("'account:' || account"))
      // What was reserved counts as used, in reports too.
      const end = "UPDATE requests SET state = 'interrupted', prompt_tokens = reserved_tokens WHERE state = 'running'"
      return this.#database.prepare(end).run().changes
    })
    return interrupt.immediate()
  }

  async prune(before: number, most: number): Promise<number> {
    const remove = this.#database.prepare<[number, number]>(
      `DELETE FROM requests WHERE rowid IN
        (SELECT rowid FROM requests WHERE created < ? AND state <> 'running' ORDER BY created LIMIT ?)`,
    )
    return await this.#commit.run(() => remove.run(before, most).changes)
  }

  async flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const batch = this.#gathered
    if (batch.begun.length === 0 && batch.spent.sums.length === 0) return
    this.#gathered = new Batch()
    try {
      await this.#commit.run(() => this.#write(batch))
    } catch (error) {
      // They wait for better days, before those that have come since.
      this.#gathered.begun = [...batch.begun, ...this.#gathered.begun].slice(-mostGathered)
      for (const spent of batch.spent.sums) this.#gathered.spent.add(spent)
      this.#flushSoon()
      throw error
    }
  }

  /** How many entries wait to be written. */
  readonly queued = (): number =>
    this.#gathered.begun.length + this.#awaited.begun.length + this.#awaited.finished.length

  /** All that callers wait for in one turn is one write, so that what a subject spent in it is added up first. */
  #keep(): Promise<void> {
    this.#kept ??= this.#commit.run(() => {
      const batch = this.#awaited
      this.#awaited = new Batch()
      this.#kept = undefined
      this.#write(batch)
    })
    return this.#kept
  }

  #write({ begun, finished, spent }: Batch): void {
    for (const entry of begun) this.#insert.run(...rowOf(entry))
    for (const entry of finished) this.#finish.run(...endOf(entry))
    for (const { subject, day, tokens } of spent.sums) this.#spend.run(subject, day, tokens)
  }

  #flushSoon(): void {
    if (this.#timer !== undefined || !this.#database.open) return
    // Whoever wants to know whether it was written flushes by himself; here it is tried again.
    this.#timer = setTimeout(() => void this.flush().catch(() => undefined), gatheringTime)
    this.#timer.unref()
  }

  /** Lets nothing be tried again, as before the database is closed. */
  stop(): void {
    clearTimeout(this.#timer)
  }
}

/** What is written together. */
class Batch {
  begun: LedgerEntry[] = []
  readonly finished: LedgerEntry[] = []
  readonly spent = new SpentTokens()

  /** Counts what an entry used, for its key and its account. */
  spend(entry: LedgerEntry): void {
    this.spent.count(entry, entry.promptTokens + entry.completionTokens)
  }
}

function rowOf(entry: LedgerEntry): Values {
  const { id, account, keyId, keyPrefix, model, modelUsed, character, created, reservedTokens } = entry
  const { promptTokens, completionTokens, tokensExact, firstTokenMs, totalMs, retries, state } = entry
  const known = [id, account, keyId, keyPrefix, model, modelUsed, character, created, reservedTokens]
  return [...known, promptTokens, completionTokens, tokensExact ? 1 : 0, firstTokenMs, totalMs, retries, state]
}

function endOf(entry: LedgerEntry): Values {
  const { id, modelUsed, promptTokens, completionTokens, tokensExact, firstTokenMs, totalMs, retries, state } = entry
  return [modelUsed, promptTokens, completionTokens, tokensExact ? 1 : 0, firstTokenMs, totalMs, retries, state, id]
}
