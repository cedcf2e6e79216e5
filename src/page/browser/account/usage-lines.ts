import { dayAfter } from './period.ts'

/** What a summary can be made by. */
export type Grouping = 'day' | 'model' | 'key' | 'character'

/** A line of `GET /usage`; the group's field is the one that was asked for. */
export interface UsageLine {
  readonly day?: string
  readonly model?: string
  readonly key?: string
  /** Null for requests without one. */
  readonly character?: string | null
  readonly requests: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly failed: number
}

/** What was answered, and to which question. */
export interface Usage {
  readonly by: Grouping
  /** Days; empty where none was said. */
  readonly from: string
  readonly to: string
  readonly lines: readonly UsageLine[]
  readonly hasMore: boolean
}

/** A UTC day, with use or without. */
export interface UsageDay extends UsageLine {
  readonly day: string
}

/** Days without use are drawn for a period up to so many days; a longer one begins with its first use. */
const mostEmptyDays = 366

/** All days of an answer in order, those without use too. */
export function everyDay({ lines, from, to, hasMore }: Usage): readonly UsageDay[] {
  const known = new Map(lines.flatMap((line) => (line.day === undefined ? [] : [[line.day, line]])))
  const used = [...known.keys()]
  const firstUsed = used[0]
  const lastUsed = used.at(-1)
  if (firstUsed === undefined || lastUsed === undefined) return []
  const isShort = from !== '' && from >= dayAfter(lastUsed, -mostEmptyDays)
  const first = isShort && from < firstUsed ? from : firstUsed
  // Of the days after the last line nothing is known where there are more lines.
  const last = to > lastUsed && to <= dayAfter(first, mostEmptyDays) && !hasMore ? to : lastUsed
  const days: UsageDay[] = []
  for (let day = first; day <= last; day = dayAfter(day, 1)) {
    days.push({ ...(known.get(day) ?? nothing), day })
  }
  return days
}

const nothing = { requests: 0, prompt_tokens: 0, completion_tokens: 0, failed: 0 }

/** All lines together. */
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

/** Which group a line is of; null for requests that have none. */
export function groupOf(line: UsageLine, by: Grouping): string | null {
  return line[by] ?? null
}
