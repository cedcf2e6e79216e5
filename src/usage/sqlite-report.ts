import { setImmediate } from 'node:timers/promises'
import type { Database, Statement } from 'better-sqlite3'
import {
  type Grouping,
  isFailure,
  type LedgerRequest,
  type UsageLine,
  type UsageQuestion,
  type UsageReader,
} from './report.ts'
import { type RequestRow, sortedLines, toRequest } from './rows.ts'

interface SummedRow {
  readonly place: number
  readonly created: number
  readonly line: string | null
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly state: string
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

  constructor(database: Database) {
    this.#database = database
    this.#byId = database.prepare('SELECT * FROM requests WHERE id = ? AND account = ?')
  }

  async find(account: number, id: string): Promise<LedgerRequest | undefined> {
    const row = this.#byId.get(id, account)
    return row && toRequest(row)
  }

  async sum(question: UsageQuestion): Promise<readonly UsageLine[]> {
    const { by, account, from, until } = question
    const batch = this.#database.prepare<[Record<string, number>], SummedRow>(`
      SELECT rowid AS place, created, ${groupColumns[by]} AS line, prompt_tokens, completion_tokens, state
      FROM requests
      WHERE (created, rowid) > (@created, @place) AND created < @until ${account === undefined ? '' : 'AND account = @account'}
      ORDER BY created, rowid LIMIT ${batchSize}`)
    const sums = new Map<string | null, UsageLine>()
    // Rows of the second before have no place as high as this.
    let last = { created: from - 1, place: Number.MAX_SAFE_INTEGER }
    for (;;) {
      const rows = batch.all({ ...last, until, ...(account === undefined ? {} : { account }) })
      for (const row of rows) add(sums, row)
      const end = rows.at(-1)
      if (!end || rows.length < batchSize) return sortedLines(by, [...sums.values()])
      last = { created: end.created, place: end.place }
      // Others' requests come in between.
      await setImmediate()
    }
  }
}

function add(sums: Map<string | null, UsageLine>, row: SummedRow): void {
  if (row.state === 'running') return
  const sum = sums.get(row.line)
  sums.set(row.line, {
    group: row.line,
    requests: (sum?.requests ?? 0) + 1,
    promptTokens: (sum?.promptTokens ?? 0) + row.prompt_tokens,
    completionTokens: (sum?.completionTokens ?? 0) + row.completion_tokens,
    failed: (sum?.failed ?? 0) + Number(isFailure(row.state)),
  })
}
