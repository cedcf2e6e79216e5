import { rowOf, type Script, sql } from '../storage/scripts.ts'
import { dayOf } from '../time.ts'
import type { LedgerEntry } from './ledger.ts'

/** Tokens that a subject (`key:ID`, `account:ID`) spent on a UTC day, such as `2026-11-20`. */
export interface Spent {
  readonly day: string
  readonly subject: string
  readonly tokens: number
}

/** A request that a crashed service left running, with its reserved tokens. */
export interface InterruptedRequest extends Pick<LedgerEntry, 'account' | 'keyId' | 'maker' | 'created'> {
  readonly tokens: number
}

/** Sums spent tokens by day and subject. */
export class SpentTokens {
  readonly #sums = new Map<string, { day: string; subject: string; tokens: number }>()

  /** Counts the tokens of a request, for its key, the maker of the key, and its account. */
  count(
    { keyId, maker, account, created }: Pick<LedgerEntry, 'keyId' | 'maker' | 'account' | 'created'>,
    tokens: number,
  ): void {
    if (tokens === 0) return
    const day = dayOf(created * 1000)
    const subjects = [`key:${keyId}`, ...(maker == null ? [] : [`key:${maker}`]), `account:${account}`]
    for (const subject of subjects) this.add({ day, subject, tokens })
  }

  /** Adds the spent tokens of a subject. */
  add({ day, subject, tokens }: Spent): void {
    const place = `${day} ${subject}`
    const known = this.#sums.get(place)
    if (known) known.tokens += tokens
    else this.#sums.set(place, { day, subject, tokens })
  }

  /** Tokens of a subject between two days, both included. */
  between(subject: string, fromDay: string, toDay: string): number {
    let tokens = 0
    for (const each of this.#sums.values()) {
      if (each.subject === subject && each.day >= fromDay && each.day <= toDay) tokens += each.tokens
    }
    return tokens
  }

  /** The sums, one for each day and subject. */
  get sums(): readonly Spent[] {
    return [...this.#sums.values()]
  }
}

/** The tokens that the database has for a subject between two days, both included. */
export function* storedTokens(subject: string, fromDay: string, toDay: string): Script<number> {
  const row = yield* rowOf<{ tokens: number }>(sql`
    SELECT CAST(coalesce(sum(tokens), 0) AS BIGINT) AS tokens FROM spend
    WHERE subject = ${subject} AND day BETWEEN ${fromDay} AND ${toDay}`)
  return row?.tokens ?? 0
}
