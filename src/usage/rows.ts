import { isFailure } from './outcome.ts'
import type { Grouping, LedgerRequest, UsageLine } from './report.ts'

/** A request as the database keeps it. */
export interface RequestRow {
  readonly id: string
  readonly key_prefix: string
  readonly model: string
  readonly model_used: string | null
  readonly character: string | null
  readonly created: number
  readonly microsecond: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly tokens_exact: number
  readonly first_token_ms: number | null
  readonly total_ms: number
  readonly retries: number
  readonly state: string
}

/** Requests that ended alike, or a single one, as a part of a line. */
export interface SummedRow {
  readonly line: string | null
  readonly state: string
  readonly requests: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
}

/** Adds a row to its line. */
export function addTo(lines: Map<string | null, UsageLine>, row: SummedRow): void {
  const line = lines.get(row.line)
  lines.set(row.line, {
    group: row.line,
    requests: (line?.requests ?? 0) + row.requests,
    promptTokens: (line?.promptTokens ?? 0) + row.prompt_tokens,
    completionTokens: (line?.completionTokens ?? 0) + row.completion_tokens,
    failed: (line?.failed ?? 0) + (isFailure(row.state) ? row.requests : 0),
  })
}

/** Lines in the order in which they are told: days as they come, anything else by its tokens, the most first. */
export function sortedLines(by: Grouping, lines: Iterable<UsageLine>): readonly UsageLine[] {
  const tokens = (line: UsageLine): number => line.promptTokens + line.completionTokens
  const name = ({ group }: UsageLine): string => group ?? ''
  const byName = (a: UsageLine, b: UsageLine): number => Number(name(a) > name(b)) - Number(name(a) < name(b))
  return [...lines].sort((a, b) => (by === 'day' ? 0 : tokens(b) - tokens(a)) || byName(a, b))
}

/** The request that a row tells of. */
export function toRequest(row: RequestRow): LedgerRequest {
  return {
    id: row.id,
    created: row.created,
    microsecond: row.microsecond,
    keyPrefix: row.key_prefix,
    model: row.model,
    modelUsed: row.model_used,
    character: row.character,
    promptTokens: row.prompt_tokens,
    completionTokens: row.completion_tokens,
    tokensExact: row.tokens_exact === 1,
    firstTokenMs: row.first_token_ms,
    totalMs: row.total_ms,
    retries: row.retries,
    state: row.state,
  }
}
