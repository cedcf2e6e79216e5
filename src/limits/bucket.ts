import type { Allowance } from '../access/guard.ts'

const minute = 60_000

/**
 * A token bucket. It stores how many tokens are taken and not yet refilled, and not how many tokens are left. So each call may
 * give another limit, and an unused bucket equals a new bucket. Times are in milliseconds.
 */
export class Bucket {
  #taken: number
  #at: number
  #limit = 0

  /** @param taken tokens that are taken and not yet refilled at the time `at` */
  constructor(taken = 0, at = 0) {
    this.#taken = taken
    this.#at = at
  }

  /** The arguments for the constructor of a bucket that continues this one. */
  get state(): { readonly taken: number; readonly at: number } {
    return { taken: this.#taken, at: this.#at }
  }

  /** Tokens taken and not yet refilled, under this limit per minute. */
  takenAt(now: number, limit: number): number {
    // A clock that is set back refills nothing and takes nothing.
    const elapsed = Math.max(0, now - this.#at)
    if (this.#taken > 0) this.#taken = Math.max(0, this.#taken - (elapsed * limit) / minute)
    this.#at = now
    this.#limit = limit
    return this.#taken
  }

  /**
   * Checks whether `count` tokens are left, and takes none.
   * @returns 0 if the tokens are left, else the milliseconds until they are refilled; a minute if `count` is over the limit
   */
  wait(now: number, limit: number, count: number): number {
    const excess = this.takenAt(now, limit) + count - limit
    // Tokens refill in fractions, so a whole token may be missed by a rounding error.
    if (excess <= 1e-9 * (limit + 1)) return 0
    return count > limit ? minute : (excess * minute) / limit
  }

  /** Takes tokens, even if too few tokens are left. A negative difference gives tokens back. */
  correct(difference: number): void {
    this.#taken = Math.max(0, this.#taken + difference)
  }

  /** Tokens of the limit that are used, rounded up. */
  used(now: number, limit: number): number {
    return Math.ceil(Math.max(0, this.takenAt(now, limit) - 1e-9 * (limit + 1)))
  }

  /** The tokens that are left, and the milliseconds until all are refilled. */
  left(now: number, limit: number): Allowance {
    const taken = this.takenAt(now, limit)
    return {
      limit,
      remaining: Math.max(0, Math.floor(limit - taken + 1e-9 * (limit + 1))),
      resetMs: taken === 0 ? 0 : limit === 0 ? minute : (taken * minute) / limit,
    }
  }

  /** Whether the bucket can be dropped without a loss: under the limit of the last call, all tokens have refilled. */
  isUnused(now: number): boolean {
    return this.takenAt(now, this.#limit) === 0
  }
}
