import { setImmediate } from 'node:timers/promises'
import type { Database, Statement } from 'better-sqlite3'
import type { Grouping, LedgerRequest, RequestsQuestion, UsageLine, UsageQuestion, UsageReader } from './report.ts'
import { addTo, type RequestRow, type SummedRow, sortedLines, toRequest } from './rows.ts'

interface PlacedRow extends SummedRow {
  readonly place: number
  readonly created: number
}

/** How many rows are read at once: they hold the event loop for a few milliseconds. */
const batchSize = 2000

const groupColumns: Readonly<Record<Grouping, string>> = {
  day: "date(created, 'unixepoch')",
  model: 'model',
  key: 'key_prefix',
  character: 'character',
  account: '(SELECT name FROM accounts WHERE accounts.id = requests.account)',
}

/** The reading side of the ledger in SQLite. */
export class SqliteUsageReader implements UsageReader {
  readonly #database: Database
  readonly #byId: Statement<[string, number], RequestRow>
  readonly #older: Statement<[Record<string, number | string>], RequestRow>

  constructor(database: Database) {
    this.#database = database
    this.#byId = database.prepare('SELECT * FROM requests WHERE id = ? AND account = ?')
    this.#older = database.prepare(`
      SELECT * FROM requests
      WHERE account = @account AND created >= @from AND (created, microsecond, id) < (@created, @microsecond, @id)
      ORDER BY created DESC, microsecond DESC, id DESC LIMIT @most`)
  }

  async find(account: number, id: string): Promise<LedgerRequest | undefined> {
    const row = this.#byId.get(id, account)
    return row && toRequest(row)
  }

  async list(question: RequestsQuestion, limit: number): Promise<readonly LedgerRequest[]> {
    const { account, from, until, model, state, after } = question
    const isWanted = (row: RequestRow) => row.model === (model ?? row.model) && row.state === (state ?? row.state)
    const found: LedgerRequest[] = []
    // Of those that are not asked for there may be any number in between.
    const most = model === undefined && state === undefined ? limit : batchSize
    let { created, microsecond = 0, id } = after && after.created < until ? after : { created: until, id: '' }
    for (;;) {
      const rows = this.#older.all({ account, from, created, microsecond, id, most })
      found.push(...rows.filter(isWanted).map(toRequest))
      const last = rows.at(-1)
      if (!last || rows.length < most || found.length >= limit) return found.slice(0, limit)
      created = last.created
      microsecond = last.microsecond
      id = last.id
      // Others' requests come in between.
      await setImmediate()
    }
  }

  async sum(question: UsageQuestion): Promise<readonly UsageLine[]> {
    const { by, account, from, until } = question
    const batch = this.#database.prepare<[Record<string, number>], PlacedRow>(`
      SELECT rowid AS place, created, ${groupColumns[by]} AS line, 1 AS requests, prompt_tokens, completion_tokens, state
      FROM requests
      WHERE (created, rowid) > (@created, @place) AND created < @until ${account === undefined ? '' : 'AND account = @account'}
      ORDER BY created, rowid LIMIT ${batchSize}`)
    const lines = new Map<string | null, UsageLine>()
    // Rows of the second before have no place as high as this.
    let last = { created: from - 1, place: Number.MAX_SAFE_INTEGER }
    for (;;) {
      const rows = batch.all({ ...last, until, ...(account === undefined ? {} : { account }) })
      for (const row of rows) if (row.state !== 'running') addTo(lines, row)
      const end = rows.at(-1)
      if (!end || rows.length < batchSize) return sortedLines(by, lines.values())
      last = { created: end.created, place: end.place }
      // Others' requests come in between.
      await setImmediate()
    }
  }
}
