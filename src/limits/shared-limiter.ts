import type { Key } from '../access/access.ts'
import type { Allowance, RequestHeaders } from '../access/guard.ts'
import { type Clock, machineClock } from '../clock.ts'
import type { Limits } from '../limit-values.ts'
import { type RequestedTokens, takePlace } from './counting.ts'
import { openAiRequestHeaders } from './headers.ts'
import { type AppliedLimits, type ChatPurpose, type KeyLimits, keyLimitsOf, limitsFor } from './key-limits.ts'
import type { Limiter, Reservation, Tallies } from './limiter.ts'
import type { SharedCounts, TallyOf } from './postgres.ts'
import { SharedRequests } from './shared-requests.ts'

/** The options of a limiter of several replicas. */
export interface SharedLimiterOptions {
  /** The default limits of accounts, from the setting `LIMITS`. */
  readonly settings: Limits
  readonly counts: SharedCounts
  /** Measures the requests of each second, and the lifetime of prefetched requests; by default the machine's clock. */
  readonly clock?: Clock
  /** Resolves when the ledger has written all ends of requests whose earlier write failed. */
  readonly caughtUp?: () => Promise<void>
}

/** The tokens that a chat request takes, and the limits in which the tokens are counted. */
interface Counted {
  readonly limits: KeyLimits<string>
  readonly requested: RequestedTokens
}

const nothing = { chats: 0, reserved: 0, tokens: 0 }

/** The most entries of the cache of prefetched requests. A full cache is emptied. After that, each key first needs a query. */
const manySubjects = 10_000

/**
 * Counts the requests and tokens of keys and accounts together with other replicas, and refuses requests over a limit. Requests
 * without a limit are not counted and wait for no query.
 */
export class SharedLimiter implements Limiter {
  readonly #settings: Limits
  readonly #counts: SharedCounts
  readonly #clock: Clock
  readonly #caughtUp: () => Promise<void>
  readonly #requests = new Map<string, SharedRequests>()
  #inFlightChats = 0

  constructor({ settings, counts, clock = machineClock, caughtUp = async () => {} }: SharedLimiterOptions) {
    this.#settings = settings
    this.#counts = counts
    this.#clock = clock
    this.#caughtUp = caughtUp
  }

  admit(key: Key, headersOf: RequestHeaders = openAiRequestHeaders): Allowance | Promise<Allowance> | undefined {
    const { requests } = this.#limitsOf(key)
    return requests.length === 0 ? undefined : this.#requestsOf(requests).admit(requests, headersOf)
  }

  async reserve(key: Key, estimate: () => number, purpose: ChatPurpose = 'answer'): Promise<Reservation> {
    const limits = limitsFor(purpose, this.#limitsOf(key))
    const countsTokens = limits.tokens.length > 0 || limits.hasSpendingLimit
    const isCounted = countsTokens || limits.inFlight.length > 0
    if (!isCounted) return this.#hold({ tokens: 0, hasSpendingLimit: false, allowance: undefined })
    const tokens = countsTokens ? estimate() : 0
    const requested = { tokens, reserved: purpose === 'answer' ? tokens : 0 }
    const allowance = await this.#counts.take(
      limits.subjects,
      (tallyOf, now) => takePlace(limitsFor(purpose, keyLimitsOf(key, this.#settings, tallyOf)), requested, now),
      limits.hasSpendingLimit,
    )
    return this.#hold({ tokens, hasSpendingLimit: limits.hasSpendingLimit, allowance }, { limits, requested })
  }

  readTallies<T>(key: Key, read: (tallies: Tallies, now: number) => T): Promise<T> {
    const { subjects } = this.#limitsOf(key)
    const readAll = (tallyOf: TallyOf, now: number) => read(keyLimitsOf(key, this.#settings, tallyOf), now)
    return this.#counts.take(subjects, readAll, true)
  }

  get inFlightChats(): number {
    return this.#inFlightChats
  }

  #requestsOf(limits: AppliedLimits<string>): SharedRequests {
    const subjects = limits.map(({ subject }) => subject)
    const name = subjects.join(' ')
    const known = this.#requests.get(name)
    if (known) return known
    if (this.#requests.size >= manySubjects) this.#requests.clear()
    const requests = new SharedRequests(subjects, this.#counts, this.#clock)
    this.#requests.set(name, requests)
    return requests
  }

  /**
   * Makes the reservation of an admitted request.
   * @param counted the tokens and the chat that the reservation gives back to the shared counts when it is settled; undefined if
   *   there are none
   */
  #hold(held: Omit<Reservation, 'settle'>, counted?: Counted): Reservation {
    this.#inFlightChats++
    let isSettled = false
    return {
      ...held,
      settle: (spent, recorded) => {
        if (isSettled) return undefined
        isSettled = true
        this.#inFlightChats--
        return counted && this.#release(counted, spent, recorded)
      },
    }
  }

  /**
   * Waits until the ledger has recorded the spent tokens, then releases the in-flight chat and the reserved tokens. If the ledger
   * fails to write, the chat is released immediately, and the reserved tokens are released when the ledger has caught up.
   */
  async #release({ limits, requested }: Counted, spent: number, recorded?: Promise<void>): Promise<void> {
    const { tokens, reserved } = requested
    const isRecorded = await (recorded ?? Promise.resolve()).then(
      () => true,
      () => false,
    )
    const { subjects } = limits
    const releaseReserved = () => this.#counts.release(subjects.map((subject) => ({ ...nothing, subject, reserved })))
    if (!isRecorded) void this.#caughtUp().then(releaseReserved)
    const all = subjects.map((subject) => ({
      subject,
      chats: 1,
      reserved: isRecorded ? reserved : 0,
      tokens: limits.tokens.some((each) => each.subject === subject) ? spent - tokens : 0,
    }))
    await this.#counts.release(all)
  }

  #limitsOf(key: Key): KeyLimits<string> {
    return keyLimitsOf(key, this.#settings, (name) => name)
  }
}
