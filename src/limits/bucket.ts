import type { Allowance } from '../access/request-counter.ts'

const minute = 60_000

/**
 * A token bucket that keeps what has been taken and not yet come back, instead of what is left: so the limit may be
 * another one each time, and a bucket from which nothing is taken is like one that never was. Times are milliseconds.
 */
export class Bucket {
  #taken: number
  #at: number
  #limit = 0

  /** @param taken what had not come back at the time `at` */
  constructor(taken = 0, at = 0) {
    this.#taken = taken
    this.#at = at
  }

  /** What another bucket is made of to go on from here. */
  get state(): { readonly taken: number; readonly at: number } {
    return { taken: this.#taken, at: this.#at }
  }

  /** What has not come back of what was taken, under this limit per minute. */
  takenAt(now: number, limit: number): number {
    // A clock that is set back gives nothing and takes nothing.
    const elapsed = Math.max(0, now - this.#at)
    if (this.#taken > 0) this.#taken = Math.max(0, this.#taken - (elapsed * limit) / minute)
    this.#at = now
    this.#limit = limit
    return this.#taken
  }

  /**
   * Tells whether so many are there, and takes none.
   * @returns 0 when they are, else after how many milliseconds to ask again; a minute where waiting does not help
   */
  wait(now: number, limit: number, count: number): number {
    const excess = this.takenAt(now, limit) + count - limit
    // What trickles back in fractions may miss a whole one by less than can be told.
    if (excess <= 1e-9 * (limit + 1)) return 0
    return count > limit ? minute : (excess * minute) / limit
  }

  /** Takes so many when they are there. @returns what `wait` does */
  take(now: number, limit: number, count: number): number {
    const wait = this.wait(now, limit, count)
    if (wait === 0) this.#taken += count
    return wait
  }

  /** Takes more, whether they are there or not; a negative number gives some back. */
  correct(difference: number): void {
    this.#taken = Math.max(0, this.#taken + difference)
  }

  /** How much of the limit is used, rounded up. */
  used(now: number, limit: number): number {
    return Math.ceil(Math.max(0, this.takenAt(now, limit) - 1e-9 * (limit + 1)))
  }

  /** How much is left. */
  left(now: number, limit: number): Allowance {
    const taken = this.takenAt(now, limit)
    return {
      limit,
      remaining: Math.max(0, Math.floor(limit - taken + 1e-9 * (limit + 1))),
      resetMs: taken === 0 ? 0 : limit === 0 ? minute : (taken * minute) / limit,
    }
  }

  /** Whether forgetting it loses nothing: under the limit that it was last asked with, all has come back. */
  isEmpty(now: number): boolean {
    return this.takenAt(now, this.#limit) === 0
  }
}
