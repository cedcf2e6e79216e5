import { dayOf } from '../time.ts'

/** Gives the tokens that were spent by a subject on the days from one to another, both included, such as `2026-11-20`. */
export type SpentBetween = (subject: string, fromDay: string, toDay: string) => Promise<number>

/** What one subject has spent today and this month (UTC): read once from the ledger, and followed from there. */
export class Spending {
  /** Resolves when the past is known; until then the counts are too low. */
  readonly ready: Promise<void>
  #day: string
  #today = 0
  #month = 0

  constructor(subject: string, spent: SpentBetween, now: number) {
    const day = dayOf(now)
    this.#day = day
    // What is added from now on is not in the answers.
    const past = [spent(subject, day, day), spent(subject, `${day.slice(0, 7)}-01`, day)]
    this.ready = Promise.all(past).then(([today = 0, month = 0]) => {
      this.add(day, today, month)
    })
  }

  /** Counts tokens of a request that began on this day. */
  add(day: string, tokens: number, ofMonth = tokens): void {
    if (day > this.#day) this.#turn(day)
    if (day === this.#day) this.#today += tokens
    if (day.slice(0, 7) === this.#day.slice(0, 7)) this.#month += ofMonth
  }

  /** Tokens of the day of this time. */
  today(now: number): number {
    this.#turn(dayOf(now))
    return this.#today
  }

  /** Tokens of the month of this time. */
  thisMonth(now: number): number {
    this.#turn(dayOf(now))
    return this.#month
  }

  /** A clock that is set back leaves the day as it is. */
  #turn(day: string): void {
    if (day <= this.#day) return
    if (day.slice(0, 7) !== this.#day.slice(0, 7)) this.#month = 0
    this.#today = 0
    this.#day = day
  }
}

/** Milliseconds until the next UTC day. */
export function untilTomorrow(now: number): number {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate() + 1) - now
}

/** Milliseconds until the next UTC month. */
export function untilNextMonth(now: number): number {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1) - now
}
