import { setImmediate } from 'node:timers/promises'
import type { Database, Statement } from 'better-sqlite3'
import { openScratch } from '../storage/database.ts'
import { dayOf, unixSeconds } from '../time.ts'
import { type Period, partsOf } from './period.ts'
import type { Grouping, LedgerRequest, RequestFilter, UsageFilter, UsageLine, UsageReader } from './report.ts'
import { lineOf, type RequestRow, requestColumns, toRequest } from './rows.ts'
import { unfailedStates } from './states.ts'

/** Rows of a batch, which blocks the event loop for a few milliseconds. */
const rowsPerBatch = 2000

/** Reads the ledger in SQLite. */
export class SqliteUsageReader implements UsageReader {
  readonly #database: Database
  readonly #byId: Statement<[string, number], RequestRow>
  readonly #older: Statement<[Record<string, number | string>], RequestRow>
  #lastTurn = Promise.resolve()

  constructor(database: Database) {
    this.#database = database
    this.#byId = database.prepare(`SELECT ${requestColumns} FROM requests WHERE id = ? AND account = ?`)
    this.#older = database.prepare(`
      SELECT ${requestColumns} FROM requests
      WHERE account = @account AND created >= @from AND (created, microsecond, id) < (@created, @microsecond, @id)
      ORDER BY created DESC, microsecond DESC, id DESC LIMIT @limit`)
  }

  async find(account: number, id: string): Promise<LedgerRequest | undefined> {
    const row = this.#byId.get(id, account)
    return row && toRequest(row)
  }

  async list(filter: RequestFilter, limit: number): Promise<readonly LedgerRequest[]> {
    const { account, from, until, model, state, after } = filter
    const isMatch = (row: RequestRow) => row.model === (model ?? row.model) && row.state === (state ?? row.state)
    const found: LedgerRequest[] = []
    // A search reads in batches: any number of other requests may lie between the matches.
    const batchSize = model === undefined && state === undefined ? limit : rowsPerBatch
    let { created, microsecond = 0, id } = after && after.created < until ? after : { created: until, id: '' }
    for (;;) {
      const rows = this.#older.all({ account, from, created, microsecond, id, limit: batchSize })
      found.push(...rows.filter(isMatch).map(toRequest))
      const last = rows.at(-1)
      if (!last || rows.length < batchSize || found.length >= limit) return found.slice(0, limit)
      created = last.created
      microsecond = last.microsecond
      id = last.id
      // Other requests run between two batches.
      await setImmediate()
    }
  }

  async sum(filter: UsageFilter, maxLines = Number.POSITIVE_INFINITY): Promise<readonly UsageLine[]> {
    // There may be as many lines as requests. So a temporary database sums the lines, and reads the ledger as one snapshot.
    const scratch = openScratch(this.#database.name)
    try {
      scratch.exec(
        'CREATE TABLE lines (key TEXT PRIMARY KEY, requests INTEGER, prompt INTEGER, completion INTEGER, failed INTEGER) WITHOUT ROWID',
      )
      for (const part of partsToSum(filter)) await this.#addUp(scratch, filter.account, part)
      return await this.#firstLines(scratch, filter.by, maxLines)
    } finally {
      scratch.close()
    }
  }

  /** Adds a part of the ledger to the lines, a batch at a time. */
  async #addUp(scratch: Database, account: number | undefined, part: Part): Promise<void> {
    const { from, order } = part
    const where = `${part.where} AND (${order}) > (?, ?) AND (${order}) <= (?, ?) ${account === undefined ? '' : 'AND account = ?'}`
    const accountValues = account === undefined ? [] : [account]
    const endOfBatch = scratch
      .prepare<unknown[], RowPosition>(
        `SELECT ${order} FROM ${from} WHERE ${where} ORDER BY ${order} LIMIT 1 OFFSET ${rowsPerBatch - 1}`,
      )
      .raw()
    const add = scratch.prepare(`
      INSERT INTO lines SELECT ifnull('=' || ${part.line}, ''), ${part.counts} FROM ${from} WHERE ${where}
      ON CONFLICT (key) DO UPDATE SET requests = requests + excluded.requests, prompt = prompt + excluded.prompt,
        completion = completion + excluded.completion, failed = failed + excluded.failed`)
    for (let { after } = part; ; ) {
      // Only a command sums all accounts. In the process of a command, no requests wait, so one batch is enough.
      const end = account === undefined ? undefined : endOfBatch.get(...after, ...part.last, ...accountValues)
      add.run(...after, ...(end ?? part.last), ...accountValues)
      if (!end) return
      after = end
      await this.#nextTurn()
    }
  }

  async #firstLines(scratch: Database, by: Grouping, maxLines: number): Promise<readonly UsageLine[]> {
    const first = new FirstLines(by, maxLines)
    let count = 0
    const lines = scratch.prepare<[], [string, number, number, number, number]>('SELECT * FROM lines').raw().iterate()
    for (const [key, requests, promptTokens, completionTokens, failed] of lines) {
      first.add({ group: key === '' ? null : key.slice(1), requests, promptTokens, completionTokens, failed })
      if (++count % rowsPerBatch === 0) await this.#nextTurn()
    }
    return first.inOrder()
  }

  /** Waits for a turn of the event loop without a batch of another report, so that other requests run between two batches. */
  #nextTurn(): Promise<void> {
    this.#lastTurn = this.#lastTurn.then(() => setImmediate())
    return this.#lastTurn
  }
}

/** The last row of a batch, in the order of its part. */
type RowPosition = readonly [number | string, number | string]

/** A part of the ledger to sum. Its rows come after `after`, and up to and including `last`. */
interface Part {
  readonly line: string
  readonly counts: string
  readonly from: string
  readonly where: string
  readonly order: string
  readonly after: RowPosition
  readonly last: RowPosition
}

/** The parts: sums of whole days, requests of these days that the sums do not have yet, and requests of incomplete days. */
function partsToSum({ by, from, until }: UsageFilter): readonly Part[] {
  const { days, rest } = partsOf({ from, until }, unixSeconds())
  const requests = (period: Period) => ({
    line: lineOf(by, 'requests', "date(created, 'unixepoch')"),
    counts: `1, prompt_tokens, completion_tokens, state NOT IN (${unfailedStates})`,
    from: 'requests',
    where: "state <> 'running'",
    order: 'created, rowid',
    after: [period.from, 0] as const,
    last: [period.until, 0] as const,
  })
  const rests = rest.map(requests)
  if (!days) return rests
  // The index of unsummed requests is nearly always faster, but SQLite's planner cannot know that.
  const unsummed = { from: 'requests INDEXED BY requests_unsummed', where: "summed = 0 AND state <> 'running'" }
  const sums: Part = {
    line: lineOf(by, 'usage_days', 'day'),
    counts: 'requests, prompt_tokens, completion_tokens, failed',
    from: 'usage_days',
    where: 'TRUE',
    order: 'day, digest',
    after: [dayOf(days.from * 1000), ''],
    // The tilde sorts after every digest.
    last: [dayOf((days.until - 1) * 1000), '~'],
  }
  return [sums, { ...requests(days), ...unsummed }, ...rests]
}

/** Makes a comparison of lines: days by date, other groupings by tokens, the highest number first. */
function comparing(by: Grouping): (a: UsageLine, b: UsageLine) => number {
  const tokens = (line: UsageLine): number => line.promptTokens + line.completionTokens
  const name = ({ group }: UsageLine): string => group ?? ''
  const byName = (a: UsageLine, b: UsageLine): number => Number(name(a) > name(b)) - Number(name(a) < name(b))
  return by === 'day' ? byName : (a, b) => tokens(b) - tokens(a) || byName(a, b)
}

/** Selects the first `max` lines of any number of lines, with at most `2 * max` lines in memory. */
export class FirstLines {
  readonly #compare: (a: UsageLine, b: UsageLine) => number
  readonly #max: number
  #lines: UsageLine[] = []
  /** A line that sorts after this line is not among the first lines. */
  #last: UsageLine | undefined

  /** @param max the maximum number of lines */
  constructor(by: Grouping, max: number) {
    this.#compare = comparing(by)
    this.#max = max
  }

  add(line: UsageLine): void {
    if (this.#last && this.#compare(line, this.#last) > 0) return
    this.#lines.push(line)
    if (this.#lines.length < 2 * this.#max) return
    this.#lines = this.inOrder().slice()
    this.#last = this.#lines.at(-1)
  }

  /** The first lines, sorted. */
  inOrder(): readonly UsageLine[] {
    const sorted = this.#lines.toSorted(this.#compare)
    return sorted.length > this.#max ? sorted.slice(0, this.#max) : sorted
  }
}
