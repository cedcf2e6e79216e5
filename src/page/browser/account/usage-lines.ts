import { dayAfter } from './period.ts'

/** The groupings of a usage report. */
export type Grouping = 'day' | 'model' | 'key' | 'character'

/** A line of `GET /usage`. Of the fields `day`, `model`, `key` and `character`, a line has only the field of the grouping. */
export interface UsageLine {
  readonly day?: string
  readonly model?: string
  readonly key?: string
  /** Null for requests without a character. */
  readonly character?: string | null
  readonly requests: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly failed: number
}

/** A usage report with its parameters. */
export interface Usage {
  readonly by: Grouping
  /** The first and the last day of the report. Empty if the report has no such bound. */
  readonly from: string
  readonly to: string
  readonly lines: readonly UsageLine[]
  readonly hasMore: boolean
}

/** The usage of a UTC day, which may be 0. */
export interface UsageDay extends UsageLine {
  readonly day: string
}

/**
 * Days without use are added before the first and after the last day of use, but only if the first and the last day of the plot
 * are then at most this many days apart. Otherwise the plot of a long period would be nearly empty.
 */
const maxEmptyDays = 366

/** The days of a report in order, including days without use. */
export function everyDay({ lines, from, to, hasMore }: Usage): readonly UsageDay[] {
  const known = new Map(lines.flatMap((line) => (line.day === undefined ? [] : [[line.day, line]])))
  const used = [...known.keys()]
  const firstUsed = used[0]
  const lastUsed = used.at(-1)
  if (firstUsed === undefined || lastUsed === undefined) return []
  const isShort = from !== '' && from >= dayAfter(lastUsed, -maxEmptyDays)
  const first = isShort && from < firstUsed ? from : firstUsed
  // If there are more lines, the days after the last line are unknown.
  const last = to > lastUsed && to <= dayAfter(first, maxEmptyDays) && !hasMore ? to : lastUsed
  const days: UsageDay[] = []
  for (let day = first; day <= last; day = dayAfter(day, 1)) {
    days.push({ ...(known.get(day) ?? nothing), day })
  }
  return days
}

const nothing = { requests: 0, prompt_tokens: 0, completion_tokens: 0, failed: 0 }

/** The sum of all lines. */
export function totalOf(lines: readonly UsageLine[]): UsageLine {
  const total = { ...nothing }
  for (const line of lines) {
    total.requests += line.requests
    total.prompt_tokens += line.prompt_tokens
    total.completion_tokens += line.completion_tokens
    total.failed += line.failed
  }
  return total
}

/** The group of a line; null for requests without a character. */
export function groupOf(line: UsageLine, by: Grouping): string | null {
  return line[by] ?? null
}
