import type { Key } from '../access/access.ts'
import type { Ledger } from '../usage/ledger.ts'
import type { Allowance } from './bucket.ts'
import { openAiRequestHeaders, openAiTokenHeaders, type RequestHeaders } from './headers.ts'
import type { LimitName, Limits } from './limits.ts'
import { exceeded, tooMany } from './refusals.ts'
import { dayOf, type SpentBetween, untilNextMonth, untilTomorrow } from './spending.ts'
import { Subject } from './subject.ts'

/** What limits are judged by. */
export interface LimiterOptions {
  /** For keys and accounts that have none of their own. */
  readonly settings: Limits
  /** Knows what was spent before. */
  readonly ledger: Pick<Ledger, 'spent'>
  /** Milliseconds; the system's clock without it. */
  readonly now?: () => number
  /** Milliseconds after which what was spent is read again, where other replicas spend too; never without it. */
  readonly spendingKeptFor?: number
}

/** What a chat request holds while it goes on. */
export interface Reservation {
  /** Tokens that it may spend; 0 where nothing limits them. */
  readonly tokens: number
  /** Whether its spending must be on record: a limit for a day or a month is in force. */
  readonly isLasting: boolean
  /** What is left of the tokens of this minute, where that is limited. */
  readonly allowance: Allowance | undefined
  /** Gives the rest back, once; to be called however the request ends. */
  settle(spent: number): void
}

/** A limit in force, and for whom it is counted. */
interface Applied {
  readonly limit: number
  readonly subject: Subject
}

/** The limits of one key as it was read. */
interface Terms {
  readonly generation: number
  readonly key: Subject
  readonly account: Subject
  readonly countsAtOnce: readonly Subject[]
  readonly requests: Applied | undefined
  readonly tokens: Applied | undefined
  readonly atOnce: Applied | undefined
  readonly perDay: Applied | undefined
  readonly perMonth: Applied | undefined
}

/** How many keys and accounts are counted for before those that are idle are forgotten. */
const manySubjects = 10_000

/**
 * Counts what keys and accounts do, and refuses what is more than they may. A limit that is set on a key is counted for
 * the key alone; one of its account or of the settings is counted for the account, over all keys that fall back to it.
 * What was spent in a day or a month is counted for both, always.
 */
export class Limiter {
  readonly #settings: Limits
  readonly #spent: SpentBetween
  readonly #now: () => number
  readonly #spendingKeptFor: number
  readonly #subjects = new Map<string, Subject>()
  /** A key comes as another object when it or its account has changed. */
  readonly #terms = new WeakMap<Key, Terms>()
  #generation = 0
  #sweepAt = manySubjects
  #chats = 0

  constructor({ settings, ledger, now = Date.now, spendingKeptFor = Number.POSITIVE_INFINITY }: LimiterOptions) {
    this.#settings = settings
    this.#spent = (subject, fromDay, toDay) => ledger.spent(subject, fromDay, toDay)
    this.#now = now
    this.#spendingKeptFor = spendingKeptFor
  }

  /**
   * Counts one request of a key.
   * @param tell writes the headers of a refusal
   * @returns how many are left; undefined where nothing limits them
   * @throws ApiError 429
   */
  admit(key: Key, tell: RequestHeaders = openAiRequestHeaders): Allowance | undefined {
    const { requests } = this.#termsOf(key)
    if (!requests) return undefined
    const { limit, subject } = requests
    const now = this.#now()
    const wait = subject.requests.take(now, limit, 1)
    const allowance = subject.requests.left(now, limit)
    if (wait > 0) throw exceeded('requests_per_minute', limit, wait, tell(allowance))
    return allowance
  }

  /**
   * Lets a chat request begin, and holds a place and tokens for it.
   * @param estimate how many tokens it may spend; asked only where they are limited
   * @throws ApiError 429, and what the ledger says when it cannot be read
   */
  async reserve(key: Key, estimate: () => number): Promise<Reservation> {
    const terms = this.#termsOf(key)
    const { tokens, atOnce, perDay, perMonth } = terms
    const isLasting = perDay !== undefined || perMonth !== undefined
    for (const applied of [perDay, perMonth])
      await applied?.subject.loadSpending(this.#spent, this.#now(), this.#spendingKeptFor)
    // From here on nothing waits, so that what fits now fits still when it is counted.
    const now = this.#now()
    const wanted = isLasting || tokens ? estimate() : 0
    if (atOnce && atOnce.subject.chats >= atOnce.limit) throw exceeded('chat_at_once', atOnce.limit, 1000)
    if (perDay) refuseBeyond('tokens_per_day', perDay, perDay.subject.spending?.today(now), wanted, untilTomorrow(now))
    if (perMonth) {
      const spent = perMonth.subject.spending?.thisMonth(now)
      refuseBeyond('tokens_per_month', perMonth, spent, wanted, untilNextMonth(now))
    }
    if (tokens) {
      const { limit, subject } = tokens
      const wait = subject.tokens.take(now, limit, wanted)
      if (wait > 0) {
        const headers = openAiTokenHeaders(subject.tokens.left(now, limit))
        throw wanted > limit
          ? tooMany('tokens_per_minute', limit, wanted, wait, headers)
          : exceeded('tokens_per_minute', limit, wait, headers)
      }
    }
    return this.#hold(terms, wanted, isLasting, now)
  }

  /** How many chat requests are going on, of all keys. */
  get chats(): number {
    return this.#chats
  }

  /** How many chat requests of a key are going on. */
  chatsOf(key: Key): number {
    return this.#termsOf(key).key.chats
  }

  #hold(terms: Terms, wanted: number, isLasting: boolean, now: number): Reservation {
    const { key, account, countsAtOnce, tokens } = terms
    const day = dayOf(now)
    this.#chats++
    for (const subject of countsAtOnce) subject.chats++
    for (const subject of [key, account]) subject.reserved += wanted
    let isSettled = false
    const free = () => this.#chats--
    return {
      tokens: wanted,
      isLasting,
      allowance: tokens?.subject.tokens.left(now, tokens.limit),
      settle(spent) {
        if (isSettled) return
        isSettled = true
        free()
        for (const subject of countsAtOnce) subject.chats--
        for (const subject of [key, account]) {
          subject.reserved -= wanted
          subject.spending?.add(day, spent)
        }
        tokens?.subject.tokens.correct(spent - wanted)
      },
    }
  }

  #termsOf(key: Key): Terms {
    const known = this.#terms.get(key)
    if (known?.generation === this.#generation) return known
    const own = this.#subject(`key:${key.id}`)
    const account = this.#subject(`account:${key.account.id}`)
    const applied = (name: LimitName): Applied | undefined => {
      const ofKey = key.limits[name]
      if (ofKey !== undefined) return { limit: ofKey, subject: own }
      const limit = key.account.limits[name] ?? this.#settings[name]
      return limit === undefined ? undefined : { limit, subject: account }
    }
    const terms: Terms = {
      generation: this.#generation,
      key: own,
      account,
      countsAtOnce: key.limits.chat_at_once === undefined ? [own, account] : [own],
      requests: applied('requests_per_minute'),
      tokens: applied('tokens_per_minute'),
      atOnce: applied('chat_at_once'),
      perDay: applied('tokens_per_day'),
      perMonth: applied('tokens_per_month'),
    }
    this.#terms.set(key, terms)
    return terms
  }

  #subject(name: string): Subject {
    const known = this.#subjects.get(name)
    if (known) return known
    if (this.#subjects.size >= this.#sweepAt) this.#forgetIdle()
    const subject = new Subject(name)
    this.#subjects.set(name, subject)
    return subject
  }

  #forgetIdle(): void {
    const now = this.#now()
    for (const [name, subject] of this.#subjects) if (subject.isIdle(now)) this.#subjects.delete(name)
    // Whoever knows one that is forgotten must ask anew, or it would be counted for twice.
    this.#generation++
    this.#sweepAt = Math.max(manySubjects, 2 * this.#subjects.size)
  }
}

function refuseBeyond(name: LimitName, { limit, subject }: Applied, spent = 0, wanted: number, wait: number): void {
  if (spent + subject.reserved + wanted <= limit) return
  if (wanted > limit) throw tooMany(name, limit, wanted, wait)
  throw exceeded(name, limit, wait)
}
