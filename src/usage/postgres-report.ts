import type { PostgresDatabase } from '../storage/postgres/database.ts'
import { dayOf, unixSeconds } from '../time.ts'
import { type Period, partsOf } from './period.ts'
import { withoutNul } from './postgres.ts'
import type { LedgerRequest, RequestFilter, UsageFilter, UsageLine, UsageReader } from './report.ts'
import { lineOf, type RequestRow, requestColumns, toRequest } from './rows.ts'
import { unfailedStates } from './states.ts'

const dayOfRequest = "to_char(to_timestamp(created) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"

/** Reads the ledger in PostgreSQL. */
export class PostgresUsageReader implements UsageReader {
  readonly #database: PostgresDatabase

  constructor(database: PostgresDatabase) {
    this.#database = database
  }

  async find(account: number, id: string): Promise<LedgerRequest | undefined> {
    const [row] = await this.#database.read(
      (sql) => sql<RequestRow[]>`
        SELECT ${sql.unsafe(requestColumns)} FROM requests WHERE id = ${id.replaceAll('\0', '')} AND account = ${account}`,
    )
    return row && toRequest(row)
  }

  async list(filter: RequestFilter, limit: number): Promise<readonly LedgerRequest[]> {
    const { account, from, until, model, state, after } = filter
    const { created, microsecond = 0, id } = after && after.created < until ? after : { created: until, id: '' }
    const rows = await this.#database.read(
      (sql) => sql<RequestRow[]>`
        SELECT ${sql.unsafe(requestColumns)} FROM requests
        WHERE account = ${account} AND created >= ${from} AND (created, microsecond, id) < (${created}, ${microsecond}, ${id})
          ${model === undefined ? sql`` : sql`AND model = ${withoutNul(model)}`}
          ${state === undefined ? sql`` : sql`AND state = ${state}`}
        ORDER BY created DESC, microsecond DESC, id DESC LIMIT ${limit}`,
    )
    return rows.map(toRequest)
  }

  async sum({ by, account, from, until }: UsageFilter, maxLines?: number): Promise<readonly UsageLine[]> {
    const { days, rest } = partsOf({ from, until }, unixSeconds())
    const rows = await this.#database.read((sql) => {
      const isAccounts = account === undefined ? sql`` : sql`AND account = ${account}`
      // Grouping by a language's collation takes several times as long as grouping by bytes.
      const requests = (where: string, period: Period) => sql`
        SELECT (${sql.unsafe(lineOf(by, 'requests', dayOfRequest))}) COLLATE "C", 1::bigint, prompt_tokens, completion_tokens,
          CASE WHEN state IN (${sql.unsafe(unfailedStates)}) THEN 0::bigint ELSE 1::bigint END
        FROM requests
        WHERE ${sql.unsafe(where)} state <> 'running' AND created >= ${period.from} AND created < ${period.until} ${isAccounts}`
      const none = sql`SELECT NULL::text COLLATE "C", 0::bigint, 0::bigint, 0::bigint, 0::bigint WHERE FALSE`
      const ofDays = days
        ? sql`
          SELECT (${sql.unsafe(lineOf(by, 'usage_days', 'day'))}) COLLATE "C", requests, prompt_tokens, completion_tokens, failed FROM usage_days
          WHERE day BETWEEN ${dayOf(days.from * 1000)} AND ${dayOf((days.until - 1) * 1000)} ${isAccounts}
          UNION ALL ${requests('summed = 0 AND', days)}`
        : none
      const others = rest.reduce((before, period) => sql`${before} UNION ALL ${requests('', period)}`, ofDays)
      const order = by === 'day' ? sql`` : sql`SUM(prompt_tokens + completion_tokens) DESC,`
      return sql<UsageLine[]>`
        SELECT line AS "group", SUM(requests)::bigint AS requests, SUM(prompt_tokens)::bigint AS "promptTokens",
          SUM(completion_tokens)::bigint AS "completionTokens", SUM(failed)::bigint AS failed
        FROM (${others}) AS parts (line, requests, prompt_tokens, completion_tokens, failed)
        GROUP BY line ORDER BY ${order} COALESCE(line, '') ${maxLines === undefined ? sql`` : sql`LIMIT ${maxLines}`}`
    })
    return rows.map((row) => ({ ...row }))
  }
}
