import type { Clock } from '../clock.ts'
import { ApiError } from '../errors.ts'
import type { Allowance, Bucket } from './bucket.ts'
import type { RequestHeaders } from './headers.ts'
import { takeRequest } from './judge.ts'
import type { SharedCounts } from './shared-counts.ts'

/** Milliseconds within which what was taken in advance is used, or forgotten. */
const shortly = 1000
/** The part of what is left that one replica takes in advance at most: low limits are exact. */
const smallPart = 1 / 100

/**
 * The requests of one subject as one replica knows them. The busier they are, the more of them are taken in advance, so
 * that not each has to wait; never more than come back within the second in which they have to be used. So all replicas
 * together admit no more than that beyond the limit, in whatever minute; what is not used comes back as if it had been.
 */
export class SharedRequests {
  readonly #subject: string
  readonly #counts: SharedCounts
  readonly #clock: Clock
  /** As it was when this was last asked for. Others take from it meanwhile, and nobody gives back. */
  #known: Bucket | undefined
  /** By how much the clock of that is ahead of ours. */
  #ahead = 0
  #spare = 0
  #spareUntil = 0
  #isTakingSpare = false
  /** How many came in this second, since when, and how many in the second before. */
  #come = 0
  #since = 0
  #cameBefore = 0

  /** @param subject `key:ID` or `account:ID` */
  constructor(subject: string, counts: SharedCounts, clock: Clock) {
    this.#subject = subject
    this.#counts = counts
    this.#clock = clock
  }

  /**
   * Takes one request.
   * @param tell writes the headers of a refusal
   * @returns how many are left
   * @throws ApiError 429, and 503 when the counts cannot be read or written
   */
  admit(limit: number, tell: RequestHeaders): Allowance | Promise<Allowance> {
    const now = this.#clock.now()
    this.#noteDemand(now)
    if (this.#known) {
      if (this.#spare > 0 && now < this.#spareUntil) {
        const left = this.#known.left(now + this.#ahead, limit)
        return { ...left, remaining: left.remaining + --this.#spare }
      }
      // Throws as long as none can be left: a flood of requests is no flood of questions.
      takeRequest({ limit, subject: { requests: this.#known } }, now + this.#ahead, tell)
    }
    return this.#ask(now, limit, tell)
  }

  async #ask(asked: number, limit: number, tell: RequestHeaders): Promise<Allowance> {
    const takesSpare = !this.#isTakingSpare
    this.#isTakingSpare = true
    let judged: { readonly requests: Bucket; readonly now: number } | undefined
    let spare = 0
    try {
      return await this.#counts.take([this.#subject], (tallyOf, now) => {
        const { requests } = tallyOf(this.#subject)
        judged = { requests, now }
        const left = takeRequest({ limit, subject: { requests } }, now, tell)
        spare = takesSpare ? this.#spareOf(left) : 0
        requests.take(now, limit, spare)
        return left
      })
    } catch (error) {
      spare = 0
      // What was not written was not taken, neither now nor in the questions of this process before.
      if (!(error instanceof ApiError) || error.status !== 429) {
        judged = undefined
        this.#known = undefined
      }
      throw error
    } finally {
      if (judged) {
        this.#known = judged.requests
        this.#ahead = judged.now - this.#clock.now()
      }
      if (takesSpare) {
        this.#isTakingSpare = false
        this.#spare = spare
        this.#spareUntil = asked + shortly
      }
    }
  }

  #spareOf({ limit, remaining }: Allowance): number {
    const demand = Math.max(this.#come, this.#cameBefore) / 2
    return Math.floor(Math.min(demand, (limit * shortly) / 60_000, remaining * smallPart))
  }

  #noteDemand(now: number): void {
    if (now - this.#since >= shortly) {
      this.#cameBefore = now - this.#since < 2 * shortly ? this.#come : 0
      this.#come = 0
      this.#since = now
    }
    this.#come++
  }
}
