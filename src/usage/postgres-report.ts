import type { PostgresDatabase, Queries } from '../storage/postgres/database.ts'
import { withoutNul } from './postgres.ts'
import type { Grouping, LedgerRequest, RequestsQuestion, UsageLine, UsageQuestion, UsageReader } from './report.ts'
import { addTo, type RequestRow, type SummedRow, sortedLines, toRequest } from './rows.ts'

/** The reading side of the ledger in PostgreSQL. */
export class PostgresUsageReader implements UsageReader {
  readonly #database: PostgresDatabase

  constructor(database: PostgresDatabase) {
    this.#database = database
  }

  async find(account: number, id: string): Promise<LedgerRequest | undefined> {
    const [row] = await this.#database.read(
      (sql) => sql<RequestRow[]>`
        SELECT ${columns(sql)} FROM requests WHERE id = ${id.replaceAll('\0', '')} AND account = ${account}`,
    )
    return row && toRequest(row)
  }

  async list(question: RequestsQuestion, limit: number): Promise<readonly LedgerRequest[]> {
    const { account, from, until, model, state, after } = question
    const { created, microsecond = 0, id } = after && after.created < until ? after : { created: until, id: '' }
    const rows = await this.#database.read(
      (sql) => sql<RequestRow[]>`
        SELECT ${columns(sql)} FROM requests
        WHERE account = ${account} AND created >= ${from} AND (created, microsecond, id) < (${created}, ${microsecond}, ${id})
          ${model === undefined ? sql`` : sql`AND model = ${withoutNul(model)}`}
          ${state === undefined ? sql`` : sql`AND state = ${state}`}
        ORDER BY created DESC, microsecond DESC, id DESC LIMIT ${limit}`,
    )
    return rows.map(toRequest)
  }

  async sum({ by, account, from, until }: UsageQuestion): Promise<readonly UsageLine[]> {
    const rows = await this.#database.read(
      (sql) => sql<SummedRow[]>`
        SELECT ${groupColumn(sql, by)} AS line, state, count(*)::bigint AS requests,
          SUM(prompt_tokens)::bigint AS prompt_tokens, SUM(completion_tokens)::bigint AS completion_tokens
        FROM requests
        WHERE created >= ${from} AND created < ${until} AND state <> 'running'
          ${account === undefined ? sql`` : sql`AND account = ${account}`}
        GROUP BY 1, 2`,
    )
    const lines = new Map<string | null, UsageLine>()
    for (const row of rows) addTo(lines, row)
    return sortedLines(by, lines.values())
  }
}

function columns(sql: Queries) {
  return sql`id, key_prefix, model, model_used, character, created, microsecond, prompt_tokens, completion_tokens,
    tokens_exact, first_token_ms, total_ms, retries, state`
}

function groupColumn(sql: Queries, by: Grouping) {
  switch (by) {
    case 'day':
      return sql`to_char(to_timestamp(created) AT TIME ZONE 'UTC', 'YYYY-MM-DD')`
    case 'model':
      return sql`model`
    case 'key':
      return sql`key_prefix`
    case 'character':
      return sql`character`
    case 'account':
      return sql`(SELECT name FROM accounts WHERE accounts.id = requests.account)`
  }
}
