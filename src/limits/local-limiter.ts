import type { Key } from '../access/access.ts'
import type { Allowance, RequestHeaders } from '../access/guard.ts'
import type { Limits } from '../limit-values.ts'
import { dayOf } from '../time.ts'
import { Bucket } from './bucket.ts'
import { type RequestedTokens, type Tally, takePlace, takeRequest } from './counting.ts'
import { openAiRequestHeaders } from './headers.ts'
import { type ChatPurpose, type KeyLimits, keyLimitsOf, limitsFor } from './key-limits.ts'
import type { Limiter, Reservation, Tallies } from './limiter.ts'
import { Spending, type SpentBetween } from './spending.ts'

/** The options of a limiter of one process. */
export interface LocalLimiterOptions {
  /** The default limits of accounts, from the setting `LIMITS`. */
  readonly settings: Limits
  /** Reads from the ledger the tokens that are already spent. */
  readonly spent: SpentBetween
  /** Returns the time in milliseconds; by default from the system's clock. */
  readonly now?: () => number
}

/** The number of counted keys and accounts at which idle keys and accounts are dropped. */
const manySubjects = 10_000

/**
 * Counts the requests and tokens of keys and accounts in this process only, and refuses requests over a limit. The spent tokens
 * of a day and of its month are read from the ledger when they are first needed on this day. After that, they are counted in
 * memory.
 */
export class LocalLimiter implements Limiter {
  readonly #settings: Limits
  readonly #spent: SpentBetween
  readonly #now: () => number
  readonly #subjects = new Map<string, Subject>()
  /** The limits of keys, with their subjects. A change of a key's limits makes a new `Key`. */
  #limits = new WeakMap<Key, KeyLimits<Subject>>()
  #sweepAt = manySubjects
  #inFlightChats = 0

  constructor({ settings, spent, now = Date.now }: LocalLimiterOptions) {
    this.#settings = settings
    this.#spent = spent
    this.#now = now
  }

  admit(key: Key, headersOf: RequestHeaders = openAiRequestHeaders): Allowance | undefined {
    const { requests } = this.#limitsOf(key)
    return requests.length === 0 ? undefined : takeRequest(requests, this.#now(), headersOf)
  }

  reserve(key: Key, estimate: () => number, purpose: ChatPurpose = 'answer'): Reservation | Promise<Reservation> {
    const limits = limitsFor(purpose, this.#limitsOf(key))
    return limits.hasSpendingLimit ? this.#loadAndTake(key, estimate) : this.#take(limits, estimate, purpose)
  }

  /** Reads the spent tokens of the key's subjects, and then takes a place for an answer. */
  async #loadAndTake(key: Key, estimate: () => number): Promise<Reservation> {
    let limits = this.#limitsOf(key)
    let known: KeyLimits<Subject>
    do {
      known = limits
      for (const { subject } of [...limits.perDay, ...limits.perMonth]) {
        await subject.loadSpending(this.#spent, this.#now())
      }
      // If the subjects were dropped during the wait, `#limitsOf` makes new subjects, whose spending must be loaded too.
      limits = this.#limitsOf(key)
    } while (known !== limits)
    return this.#take(limits, estimate, 'answer')
  }

  /** Counts a request. Nothing is awaited, so no other request can take tokens between the check and the count. */
  #take(limits: KeyLimits<Subject>, estimate: () => number, purpose: ChatPurpose): Reservation {
    const now = this.#now()
    const tokens = limits.tokens.length > 0 || limits.hasSpendingLimit ? estimate() : 0
    const requested = { tokens, reserved: purpose === 'answer' ? tokens : 0 }
    const allowance = takePlace(limits, requested, now)
    return this.#hold(limits, requested, allowance, (subject, spent) => {
      if (purpose === 'answer') subject.spending?.add(dayOf(now), spent)
    })
  }

  async readTallies<T>(key: Key, read: (tallies: Tallies, now: number) => T): Promise<T> {
    const limits = this.#limitsOf(key)
    for (const subject of limits.subjects) await subject.loadSpending(this.#spent, this.#now())
    return read(limits, this.#now())
  }

  get inFlightChats(): number {
    return this.#inFlightChats
  }

  /** Makes the reservation of an admitted request. @param spend counts the tokens that a subject has spent */
  #hold(
    limits: KeyLimits<Subject>,
    requested: RequestedTokens,
    allowance: Allowance | undefined,
    spend: (subject: Subject, spent: number) => void,
  ): Reservation {
    const { subjects, tokens } = limits
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
        for (const subject of subjects) {
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
    const known = this.#limits.get(key)
    if (known) return known
    if (this.#subjects.size >= this.#sweepAt) this.#forgetIdle()
    const limits = keyLimitsOf(key, this.#settings, (name) => this.#subject(name))
    this.#limits.set(key, limits)
    return limits
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
    this.#limits = new WeakMap()
    this.#sweepAt = Math.max(manySubjects, 2 * this.#subjects.size)
  }
}

/** The counts of one key or one account in this process. */
class Subject implements Tally {
  /** `key:ID` or `account:ID`, as in the ledger. */
  readonly name: string
  readonly requests = new Bucket()
  readonly tokens = new Bucket()
  chats = 0
  reserved = 0
  /** The tokens that the subject has spent on one day; undefined until they are first read. */
  spending: Spending | undefined

  constructor(name: string) {
    this.name = name
  }

  /**
   * The tokens that the subject has spent on the day and in the month of `now`. Resolves when the ledger has been read.
   * @throws the ledger's error when the ledger cannot be read; the next call reads the ledger again
   */
  async loadSpending(spent: SpentBetween, now: number): Promise<Spending> {
    if (!this.spending?.isOf(now)) this.spending = new Spending(this.name, spent, now)
    const spending = this.spending
    try {
      await spending.ready
    } catch (error) {
      if (this.spending === spending) this.spending = undefined
      throw error
    }
    return spending
  }

  /** Whether the subject can be dropped without a loss of counts. The spent tokens are in the ledger too. */
  isIdle(now: number): boolean {
    return this.chats === 0 && this.reserved === 0 && this.requests.isUnused(now) && this.tokens.isUnused(now)
  }
}
