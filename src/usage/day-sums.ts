import { hash } from 'node:crypto'
import { dayOf } from '../time.ts'
import { isFailure } from './states.ts'

/** The fields of an ended request that the sums need. */
export interface EndedRequest {
  readonly account: number
  /** Unix seconds. */
  readonly created: number
  readonly key_prefix: string
  readonly model: string
  readonly character: string | null
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly state: string
}

/** The usage of one account on one UTC day, with one key, one model and one character. */
export interface DaySum {
  readonly account: number
  /** Such as `2026-11-20`. */
  readonly day: string
  /** A digest of key, model and character for the table's primary key: names may be too long for an index of PostgreSQL. */
  readonly digest: string
  readonly key_prefix: string
  readonly model: string
  readonly character: string | null
  requests: number
  prompt_tokens: number
  completion_tokens: number
  failed: number
}

/** Sums ended requests into rows of `usage_days`, sorted by the table's key, so that all writers lock rows in the same order. */
export function sumsOf(requests: readonly EndedRequest[]): readonly DaySum[] {
  const sums = new Map<string, DaySum>()
  for (const request of requests) {
    const { account, key_prefix, model, character } = request
    const day = dayOf(request.created * 1000)
    const names = JSON.stringify([key_prefix, model, character])
    const place = `${account} ${day} ${names}`
    const sum = sums.get(place) ?? { account, day, digest: digestOf(names), key_prefix, model, character, ...nothing }
    sum.requests++
    sum.prompt_tokens += request.prompt_tokens
    sum.completion_tokens += request.completion_tokens
    if (isFailure(request.state)) sum.failed++
    sums.set(place, sum)
  }
  const keyOf = ({ account, day, digest }: DaySum) => `${account} ${day} ${digest}`
  return [...sums.values()].toSorted((a, b) => Number(keyOf(a) > keyOf(b)) - Number(keyOf(a) < keyOf(b)))
}

const nothing = { requests: 0, prompt_tokens: 0, completion_tokens: 0, failed: 0 }

function digestOf(names: string): string {
  return hash('sha256', names, 'base64url')
}
