import type { Key } from '../access/access.ts'
import type { Allowance, RequestHeaders } from '../access/request-counter.ts'
import type { Limits } from '../limit-values.ts'
import { dayOf } from '../time.ts'
import { type RequestedTokens, takePlace, takeRequest } from './counting.ts'
import { openAiRequestHeaders } from './headers.ts'
import { type KeyLimits, keyLimitsOf, withoutSpendingLimits } from './key-limits.ts'
import type { ChatPurpose, Limiter, Reservation, Tallies } from './limiter.ts'
import type { SpentBetween } from './spending.ts'
import { Subject } from './subject.ts'

/** What limits are judged by. */
export interface LocalLimiterOptions {
  /** For accounts that have none of their own. */
  readonly settings: Limits
  /** Knows what was spent before. */
  readonly spent: SpentBetween
  /** Milliseconds; the system's clock without it. */
  readonly now?: () => number
}

/** How many keys and accounts are counted for before those that are idle are forgotten. */
const manySubjects = 10_000

/**
 * Counts in this process alone what keys and accounts do, and refuses what is more than they may. What was spent in a day
 * or a month is counted for both, always.
 */
export class LocalLimiter implements Limiter {
  readonly #settings: Limits
  readonly #spent: SpentBetween
  readonly #now: () => number
  readonly #subjects = new Map<string, Subject>()
  #sweepAt = manySubjects
  #inFlightChats = 0

  constructor({ settings, spent, now = Date.now }: LocalLimiterOptions) {
    this.#settings = settings
    this.#spent = spent
    this.#now = now
  }

  admit(key: Key, tell: RequestHeaders = openAiRequestHeaders): Allowance | undefined {
    const { requests } = this.#limitsOf(key)
    return requests.length === 0 ? undefined : takeRequest(requests, this.#now(), tell)
  }

  async reserve(key: Key, estimate: () => number, purpose: ChatPurpose = 'answer'): Promise<Reservation> {
    const inForce = (all: KeyLimits<Subject>) => (purpose === 'answer' ? all : withoutSpendingLimits(all))
    let limits = this.#limitsOf(key)
    let known: KeyLimits<Subject>
    do {
      known = limits
      const { perDay, perMonth } = inForce(limits)
      for (const { subject } of [...perDay, ...perMonth]) {
        await subject.loadSpending(this.#spent, this.#now())
      }
      // A subject that was forgotten while this waited is another one now.
      limits = this.#limitsOf(key)
    } while (known.key !== limits.key || known.account !== limits.account)
    // From here on nothing waits, so that what fits now fits still when it is counted.
    const now = this.#now()
    const held = inForce(limits)
    const tokens = held.tokens.length > 0 || held.hasSpendingLimit ? estimate() : 0
    const requested = { tokens, reserved: purpose === 'answer' ? tokens : 0 }
    const allowance = takePlace(held, requested, now)
    return this.#hold(held, requested, allowance, (subject, spent) => {
      if (purpose === 'answer') subject.spending?.add(dayOf(now), spent)
    })
  }

  async readTallies<T>(key: Key, read: (tallies: Tallies, now: number) => T): Promise<T> {
    const limits = this.#limitsOf(key)
    for (const subject of [limits.key, limits.account]) await subject.loadSpending(this.#spent, this.#now())
    return read(limits, this.#now())
  }

  get inFlightChats(): number {
    return this.#inFlightChats
  }

  /** @param spend puts down what a subject has spent */
  #hold(
    limits: KeyLimits<Subject>,
    requested: RequestedTokens,
    allowance: Allowance | undefined,
    spend: (subject: Subject, spent: number) => void,
  ): Reservation {
    const { key, account, tokens } = limits
    this.#inFlightChats++
    let isSettled = false
    const free = () => this.#inFlightChats--
    return {
      tokens: requested.tokens,
      hasSpendingLimit: limits.hasSpendingLimit,
      allowance,
      settle(spent) {
        if (isSettled) return undefined
        isSettled = true
        free()
        for (const subject of [key, account]) {
          subject.chats--
          subject.reserved -= requested.reserved
          spend(subject, spent)
        }
        for (const { subject } of tokens) subject.tokens.correct(spent - requested.tokens)
        return undefined
      },
    }
  }

  #limitsOf(key: Key): KeyLimits<Subject> {
    if (this.#subjects.size >= this.#sweepAt) this.#forgetIdle()
    return keyLimitsOf(key, this.#settings, (name) => this.#subject(name))
  }

  #subject(name: string): Subject {
    const known = this.#subjects.get(name)
    if (known) return known
    const subject = new Subject(name)
    this.#subjects.set(name, subject)
    return subject
  }

  #forgetIdle(): void {
    const now = this.#now()
    for (const [name, subject] of this.#subjects) if (subject.isIdle(now)) this.#subjects.delete(name)
    this.#sweepAt = Math.max(manySubjects, 2 * this.#subjects.size)
  }
}
