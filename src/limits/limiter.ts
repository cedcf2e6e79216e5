import type { Key } from '../access/access.ts'
import type { Allowance, RequestHeaders } from '../access/request-counter.ts'
import type { Limits } from '../limit-values.ts'
import { dayOf } from '../time.ts'
import { takePlace, takeRequest, type Wanted } from './counting.ts'
import { openAiRequestHeaders } from './headers.ts'
import type { ChatPurpose, LimitKeeper, Reservation, Tallies } from './reservation.ts'
import type { SpentBetween } from './spending.ts'
import { Subject } from './subject.ts'
import { type Terms, termsOf, withoutSpending } from './terms.ts'

/** What limits are judged by. */
export interface LimiterOptions {
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
export class Limiter implements LimitKeeper {
  readonly #settings: Limits
  readonly #spent: SpentBetween
  readonly #now: () => number
  readonly #subjects = new Map<string, Subject>()
  #sweepAt = manySubjects
  #chats = 0

  constructor({ settings, spent, now = Date.now }: LimiterOptions) {
    this.#settings = settings
    this.#spent = spent
    this.#now = now
  }

  admit(key: Key, tell: RequestHeaders = openAiRequestHeaders): Allowance | undefined {
    const { requests } = this.#termsOf(key)
    return requests.length === 0 ? undefined : takeRequest(requests, this.#now(), tell)
  }

  async reserve(key: Key, estimate: () => number, purpose: ChatPurpose = 'answer'): Promise<Reservation> {
    const inForce = (all: Terms<Subject>) => (purpose === 'answer' ? all : withoutSpending(all))
    let terms = this.#termsOf(key)
    let known: Terms<Subject>
    do {
      known = terms
      const { perDay, perMonth } = inForce(terms)
      for (const { subject } of [...perDay, ...perMonth]) {
        await subject.loadSpending(this.#spent, this.#now())
      }
      // A subject that was forgotten while this waited is another one now.
      terms = this.#termsOf(key)
    } while (known.key !== terms.key || known.account !== terms.account)
    // From here on nothing waits, so that what fits now fits still when it is counted.
    const now = this.#now()
    const held = inForce(terms)
    const tokens = held.tokens.length > 0 || held.isLasting ? estimate() : 0
    const wanted = { tokens, reserved: purpose === 'answer' ? tokens : 0 }
    const allowance = takePlace(held, wanted, now)
    return this.#hold(held, wanted, allowance, (subject, spent) => {
      if (purpose === 'answer') subject.spending?.add(dayOf(now), spent)
    })
  }

  async look<T>(key: Key, read: (tallies: Tallies, now: number) => T): Promise<T> {
    const terms = this.#termsOf(key)
    for (const subject of [terms.key, terms.account]) await subject.loadSpending(this.#spent, this.#now())
    return read(terms, this.#now())
  }

  get chats(): number {
    return this.#chats
  }

  /** @param spend puts down what a subject has spent */
  #hold(
    terms: Terms<Subject>,
    wanted: Wanted,
    allowance: Allowance | undefined,
    spend: (subject: Subject, spent: number) => void,
  ): Reservation {
    const { key, account, tokens } = terms
    this.#chats++
    let isSettled = false
    const free = () => this.#chats--
    return {
      tokens: wanted.tokens,
      isLasting: terms.isLasting,
      allowance,
      settle(spent) {
        if (isSettled) return undefined
        isSettled = true
        free()
        for (const subject of [key, account]) {
          subject.chats--
          subject.reserved -= wanted.reserved
          spend(subject, spent)
        }
        for (const { subject } of tokens) subject.tokens.correct(spent - wanted.tokens)
        return undefined
      },
    }
  }

  #termsOf(key: Key): Terms<Subject> {
    if (this.#subjects.size >= this.#sweepAt) this.#forgetIdle()
    return termsOf(key, this.#settings, (name) => this.#subject(name))
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
