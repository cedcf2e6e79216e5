import type { Allowance, RequestHeaders } from '../access/guard.ts'
import type { Clock } from '../clock.ts'
import { ApiError } from '../errors.ts'
import type { Bucket } from './bucket.ts'
import { lowestAllowance, type Tally, takeRequest } from './counting.ts'
import type { AppliedLimits } from './key-limits.ts'
import type { SharedCounts } from './postgres.ts'

/** Prefetched requests that are not used within this time are dropped. */
const prefetchLifetimeMs = 1000
/** The part of the remaining requests that one replica may prefetch. With under 100 left it is none, so a low limit is exact. */
const maxPrefetchPart = 1 / 100

/**
 * Admits the requests of a key on one replica. Keys that have only the limit of their account share one object. Each request is
 * taken from all limits that apply to it. The higher the demand, the more requests are prefetched: they are taken from the shared
 * counts in advance, so that most requests wait for no query. Prefetched requests must be used within a second, and are at most
 * as many as refill in that second. So in any minute all replicas together admit at most a second's refill more than without
 * prefetching. Prefetched requests that are not used are refilled like used requests.
 */
export class SharedRequests {
  readonly #subjects: readonly string[]
  readonly #counts: SharedCounts
  readonly #clock: Clock
  /** The buckets by subject, as last read from the database. Since then, other replicas can only have taken more requests. */
  #lastBuckets: ReadonlyMap<string, Bucket> | undefined
  /** The milliseconds by which the database's clock is ahead of `#clock`. */
  #clockOffsetMs = 0
  #prefetched = 0
  #prefetchedUntilMs = 0
  #isPrefetching = false
  #requestsThisSecond = 0
  #secondBeganMs = 0
  #requestsLastSecond = 0

  /** @param subjects `key:ID`, `account:ID` or both */
  constructor(subjects: readonly string[], counts: SharedCounts, clock: Clock) {
    this.#subjects = subjects
    this.#counts = counts
    this.#clock = clock
  }

  /**
   * Takes one request.
   * @param limits the current limits of these subjects
   * @param headersOf writes the headers of a refusal
   * @returns how many requests are left
   * @throws ApiError 429, and 503 when the counts cannot be read or written
   */
  admit(limits: AppliedLimits<string>, headersOf: RequestHeaders): Allowance | Promise<Allowance> | undefined {
    const now = this.#clock.now()
    this.#noteDemand(now)
    const known = this.#lastBuckets
    if (known) {
      const inForce = bucketsOf(limits, (subject) => known.get(subject))
      if (this.#prefetched > 0 && now < this.#prefetchedUntilMs) {
        const left = lowestAllowance(inForce, ({ limit, subject }) =>
          subject.requests.left(now + this.#clockOffsetMs, limit),
        )
        return left && { ...left, remaining: left.remaining + --this.#prefetched }
      }
      // Throws a 429 if the last known buckets have no request left. So many requests over a limit do not cause many queries.
      takeRequest(inForce, now + this.#clockOffsetMs, headersOf)
    }
    return this.#takeFromShared(now, limits, headersOf)
  }

  async #takeFromShared(
    askedAtMs: number,
    limits: AppliedLimits<string>,
    headersOf: RequestHeaders,
  ): Promise<Allowance> {
    const prefetches = !this.#isPrefetching
    this.#isPrefetching = true
    let counted: { readonly buckets: ReadonlyMap<string, Bucket>; readonly now: number } | undefined
    let prefetched = 0
    try {
      return await this.#counts.take(this.#subjects, (tallyOf, now) => {
        const buckets = new Map(this.#subjects.map((subject) => [subject, tallyOf(subject).requests]))
        counted = { buckets, now }
        const inForce = bucketsOf(limits, (subject) => buckets.get(subject))
        const left = takeRequest(inForce, now, headersOf)
        if (!left) throw new Error('no limit is in force')
        prefetched = prefetches ? this.#prefetchable(inForce, now) : 0
        for (const { subject } of inForce) subject.requests.correct(prefetched)
        return left
      })
    } catch (error) {
      prefetched = 0
      // After an error other than a 429, it is unknown whether the counts were written, so the last known buckets may be wrong.
      if (!(error instanceof ApiError) || error.status !== 429) {
        counted = undefined
        this.#lastBuckets = undefined
      }
      throw error
    } finally {
      if (counted) {
        this.#lastBuckets = counted.buckets
        this.#clockOffsetMs = counted.now - this.#clock.now()
      }
      if (prefetches) {
        this.#isPrefetching = false
        this.#prefetched = prefetched
        this.#prefetchedUntilMs = askedAtMs + prefetchLifetimeMs
      }
    }
  }

  #prefetchable(inForce: AppliedLimits<CountedRequests>, now: number): number {
    const demand = Math.max(this.#requestsThisSecond, this.#requestsLastSecond) / 2
    const bounds = inForce.map(({ limit, subject }) =>
      Math.min((limit * prefetchLifetimeMs) / 60_000, subject.requests.left(now, limit).remaining * maxPrefetchPart),
    )
    return Math.floor(Math.min(demand, ...bounds))
  }

  #noteDemand(now: number): void {
    if (now - this.#secondBeganMs >= prefetchLifetimeMs) {
      this.#requestsLastSecond = now - this.#secondBeganMs < 2 * prefetchLifetimeMs ? this.#requestsThisSecond : 0
      this.#requestsThisSecond = 0
      this.#secondBeganMs = now
    }
    this.#requestsThisSecond++
  }
}

type CountedRequests = Pick<Tally, 'requests'>

/** The limits in force, with the buckets that requests are taken from. */
function bucketsOf(
  limits: AppliedLimits<string>,
  bucketOf: (subject: string) => Bucket | undefined,
): AppliedLimits<CountedRequests> {
  return limits.flatMap(({ limit, subject }) => {
    const requests = bucketOf(subject)
    return requests ? [{ limit, subject: { requests } }] : []
  })
}
