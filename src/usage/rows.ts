import type { Grouping, LedgerRequest, UsageLine } from './report.ts'

/** A request's row in the database. */
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
  readonly upstream_truncated: string | null
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

/** The request of a row. */
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
    upstreamTruncated: row.upstream_truncated,
  }
}
