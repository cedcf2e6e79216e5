import { dayOf } from '../time.ts'

/** Reads the tokens that a subject spent between two days, both included, such as `2026-11-20`. */
export type SpentBetween = (subject: string, fromDay: string, toDay: string) => Promise<number>

/**
 * The tokens that one subject has spent on one day (UTC) and in the month of this day. They are read once from the ledger, and
 * then counted in memory. Each other day needs a new object. This can be an earlier day, because the clock may be set back.
 */
export class Spending {
  /** Resolves when the ledger has been read; until then the counts are too low. */
  readonly ready: Promise<void>
  readonly #day: string
  #today = 0
  #month = 0

  constructor(subject: string, spent: SpentBetween, now: number) {
    const day = dayOf(now)
    this.#day = day
    // The sums of the ledger do not include tokens that `add` counts from now on.
    const past = [spent(subject, day, day), spent(subject, `${monthOf(day)}-01`, day)]
    this.ready = Promise.all(past).then(([today = 0, month = 0]) => {
      this.#today += today
      this.#month += month
    })
  }

  /** Whether a time is on this day. */
  isOf(now: number): boolean {
    return dayOf(now) === this.#day
  }

  /** Counts tokens of a request that began on `day`. */
  add(day: string, tokens: number): void {
    if (day === this.#day) this.#today += tokens
    if (monthOf(day) === monthOf(this.#day)) this.#month += tokens
  }

  /** The tokens of the day in which `now` lies; 0 if this object counts another day. */
  today(now: number): number {
    return this.isOf(now) ? this.#today : 0
  }

  /** The tokens of the month in which `now` lies; 0 if this object counts another month. */
  thisMonth(now: number): number {
    return monthOf(dayOf(now)) === monthOf(this.#day) ? this.#month : 0
  }
}

function monthOf(day: string): string {
  return day.slice(0, 7)
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
