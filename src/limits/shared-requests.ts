import type { Allowance, RequestHeaders } from '../access/request-counter.ts'
import type { Clock } from '../clock.ts'
import { ApiError } from '../errors.ts'
import type { Bucket } from './bucket.ts'
import { lowestAllowance, type Tally, takeRequest } from './counting.ts'
import type { AppliedLimits } from './key-limits.ts'
import type { SharedCounts } from './shared-counts.ts'

/** Milliseconds within which what was taken in advance is used, or forgotten. */
const shortly = 1000
/** The part of what is left that one replica takes in advance at most: low limits are exact. */
const smallPart = 1 / 100

/**
 * The requests of one key as one replica knows them, or of all keys of an account which have no limit of their own: what
 * they take is taken from each of their limits. The busier they are, the more of them are taken in advance, so
 * that not each has to wait; never more than come back within the second in which they have to be used. So all replicas
 * together admit no more than that beyond the limit, in whatever minute; what is not used comes back as if it had been.
 */
export class SharedRequests {
  readonly #subjects: readonly string[]
  readonly #counts: SharedCounts
  readonly #clock: Clock
  /** By subject, as they were when this was last asked for. Others take from them meanwhile, and nobody gives back. */
  #known: ReadonlyMap<string, Bucket> | undefined
  /** By how much the clock of that is ahead of ours. */
  #ahead = 0
  #spare = 0
  #spareUntil = 0
  #isTakingSpare = false
  /** How many came in this second, since when, and how many in the second before. */
  #come = 0
  #since = 0
  #cameBefore = 0

  /** @param subjects `key:ID`, `account:ID` or both */
  constructor(subjects: readonly string[], counts: SharedCounts, clock: Clock) {
    this.#subjects = subjects
    this.#counts = counts
    this.#clock = clock
  }

  /**
   * Takes one request.
   * @param limits the limits of these subjects as they are now
   * @param tell writes the headers of a refusal
   * @returns how many are left
   * @throws ApiError 429, and 503 when the counts cannot be read or written
   */
  admit(limits: AppliedLimits<string>, tell: RequestHeaders): Allowance | Promise<Allowance> | undefined {
    const now = this.#clock.now()
    this.#noteDemand(now)
    const known = this.#known
    if (known) {
      const inForce = bucketsOf(limits, (subject) => known.get(subject))
      if (this.#spare > 0 && now < this.#spareUntil) {
        const left = lowestAllowance(inForce, ({ limit, subject }) => subject.requests.left(now + this.#ahead, limit))
        return left && { ...left, remaining: left.remaining + --this.#spare }
      }
      // Throws as long as none can be left: a flood of requests is no flood of questions.
      takeRequest(inForce, now + this.#ahead, tell)
    }
    return this.#ask(now, limits, tell)
  }

  async #ask(asked: number, limits: AppliedLimits<string>, tell: RequestHeaders): Promise<Allowance> {
    const takesSpare = !this.#isTakingSpare
    this.#isTakingSpare = true
    let judged: { readonly buckets: ReadonlyMap<string, Bucket>; readonly now: number } | undefined
    let spare = 0
    try {
      return await this.#counts.take(this.#subjects, (tallyOf, now) => {
        const buckets = new Map(this.#subjects.map((subject) => [subject, tallyOf(subject).requests]))
        judged = { buckets, now }
        const inForce = bucketsOf(limits, (subject) => buckets.get(subject))
        const left = takeRequest(inForce, now, tell)
        if (!left) throw new Error('no limit is in force')
        spare = takesSpare ? this.#spareOf(inForce, now) : 0
        for (const { subject } of inForce) subject.requests.correct(spare)
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
        this.#known = judged.buckets
        this.#ahead = judged.now - this.#clock.now()
      }
      if (takesSpare) {
        this.#isTakingSpare = false
        this.#spare = spare
        this.#spareUntil = asked + shortly
      }
    }
  }

  #spareOf(inForce: AppliedLimits<Requests>, now: number): number {
    const demand = Math.max(this.#come, this.#cameBefore) / 2
    const most = inForce.map(({ limit, subject }) =>
      Math.min((limit * shortly) / 60_000, subject.requests.left(now, limit).remaining * smallPart),
    )
    return Math.floor(Math.min(demand, ...most))
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

type Requests = Pick<Tally, 'requests'>

/** The limits in force with the buckets that they are taken from. */
function bucketsOf(
  limits: AppliedLimits<string>,
  bucketOf: (subject: string) => Bucket | undefined,
): AppliedLimits<Requests> {
  return limits.flatMap(({ limit, subject }) => {
    const requests = bucketOf(subject)
    return requests ? [{ limit, subject: { requests } }] : []
  })
}
