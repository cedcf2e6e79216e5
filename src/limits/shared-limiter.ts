import type { Key } from '../access/access.ts'
import type { Allowance, RequestHeaders } from '../access/request-counter.ts'
import { type Clock, machineClock } from '../clock.ts'
import type { Limits } from '../limit-values.ts'
import { takePlace, type Wanted } from './counting.ts'
import { openAiRequestHeaders } from './headers.ts'
import type { ChatPurpose, LimitKeeper, Reservation, Tallies } from './reservation.ts'
import type { SharedCounts, TallyOf } from './shared-counts.ts'
import { SharedRequests } from './shared-requests.ts'
import { type Ceilings, type Terms, termsOf, withoutSpending } from './terms.ts'

/** What limits over several replicas are judged by. */
export interface SharedLimiterOptions {
  /** For accounts that have none of their own. */
  readonly settings: Limits
  readonly counts: SharedCounts
  /** Tells how many requests come in a second; the machine's without it. */
  readonly clock?: Clock
  /** Resolves when the ledger has written all ends that it could not write when they came. */
  readonly caughtUp?: () => Promise<void>
}

/** What a chat request takes, and from which limits. */
interface Counted {
  readonly terms: Terms<string>
  readonly wanted: Wanted
}

const nothing = { chats: 0, reserved: 0, tokens: 0 }

/** How many keys and accounts are remembered; forgetting them costs a question to the database. */
const manySubjects = 10_000

/**
 * Counts together with other replicas what keys and accounts do, and refuses what is more than they may. Who has no limit
 * waits for nothing and is not counted.
 */
export class SharedLimiter implements LimitKeeper {
  readonly #settings: Limits
  readonly #counts: SharedCounts
  readonly #clock: Clock
  readonly #caughtUp: () => Promise<void>
  readonly #requests = new Map<string, SharedRequests>()
  #chats = 0

  constructor({ settings, counts, clock = machineClock, caughtUp = async () => {} }: SharedLimiterOptions) {
    this.#settings = settings
    this.#counts = counts
    this.#clock = clock
    this.#caughtUp = caughtUp
  }

  admit(key: Key, tell: RequestHeaders = openAiRequestHeaders): Allowance | Promise<Allowance> | undefined {
    const { requests } = this.#termsOf(key)
    return requests.length === 0 ? undefined : this.#requestsOf(requests).admit(requests, tell)
  }

  async reserve(key: Key, estimate: () => number, purpose: ChatPurpose = 'answer'): Promise<Reservation> {
    const inForce = <Subject>(all: Terms<Subject>) => (purpose === 'answer' ? all : withoutSpending(all))
    const terms = inForce(this.#termsOf(key))
    const countsTokens = terms.tokens.length > 0 || terms.isLasting
    const isCounted = countsTokens || terms.atOnce.length > 0
    if (!isCounted) return this.#hold({ tokens: 0, isLasting: false, allowance: undefined })
    const tokens = countsTokens ? estimate() : 0
    const wanted = { tokens, reserved: purpose === 'answer' ? tokens : 0 }
    const allowance = await this.#counts.take(
      [terms.key, terms.account],
      (tallyOf, now) => takePlace(inForce(termsOf(key, this.#settings, tallyOf)), wanted, now),
      terms.isLasting,
    )
    return this.#hold({ tokens, isLasting: terms.isLasting, allowance }, { terms, wanted })
  }

  look<T>(key: Key, read: (tallies: Tallies, now: number) => T): Promise<T> {
    const { key: own, account } = this.#termsOf(key)
    const readBoth = (tallyOf: TallyOf, now: number) => read({ key: tallyOf(own), account: tallyOf(account) }, now)
    return this.#counts.take([own, account], readBoth, true)
  }

  get chats(): number {
    return this.#chats
  }

  #requestsOf(ceilings: Ceilings<string>): SharedRequests {
    const subjects = ceilings.map(({ subject }) => subject)
    const name = subjects.join(' ')
    const known = this.#requests.get(name)
    if (known) return known
    if (this.#requests.size >= manySubjects) this.#requests.clear()
    const requests = new SharedRequests(subjects, this.#counts, this.#clock)
    this.#requests.set(name, requests)
    return requests
  }

  /** @param counted what is counted of it together with others; nothing where it is not */
  #hold(held: Omit<Reservation, 'settle'>, counted?: Counted): Reservation {
    this.#chats++
    let isSettled = false
    return {
      ...held,
      settle: (spent, recorded) => {
        if (isSettled) return undefined
        isSettled = true
        this.#chats--
        return counted && this.#giveBack(counted, spent, recorded)
      },
    }
  }

  /** What was reserved is given back only when what was spent can be seen in its stead; the place at once. */
  async #giveBack({ terms, wanted }: Counted, spent: number, recorded?: Promise<void>): Promise<void> {
    const { tokens, reserved } = wanted
    const isRecorded = await (recorded ?? Promise.resolve()).then(
      () => true,
      () => false,
    )
    const subjects = [terms.key, terms.account]
    const giveReserved = () => this.#counts.giveBack(subjects.map((subject) => ({ ...nothing, subject, reserved })))
    if (!isRecorded) void this.#caughtUp().then(giveReserved)
    const all = subjects.map((subject) => ({
      subject,
      chats: 1,
      reserved: isRecorded ? reserved : 0,
      tokens: terms.tokens.some((each) => each.subject === subject) ? spent - tokens : 0,
    }))
    await this.#counts.giveBack(all)
  }

  #termsOf(key: Key): Terms<string> {
    return termsOf(key, this.#settings, (name) => name)
  }
}
