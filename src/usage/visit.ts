import type { Key } from '../access/access.ts'
import type { Headers } from '../access/request-counter.ts'
import type { ApiError } from '../errors.ts'
import { openAiTokenHeaders } from '../limits/headers.ts'
import type { LimitKeeper, Reservation } from '../limits/reservation.ts'
import { unixSeconds } from '../time.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import { Meter, type Used } from './meter.ts'

/** A chat request that is about to ask a model. */
export interface Visitor {
  /** The request's id. */
  readonly id: string
  readonly key: Key
  /** As it was asked for. */
  readonly model: string
  /** Such as `Fern@sha256:…`; null where nobody is played. */
  readonly character: string | null
  /** About how many tokens the prompt has; asked only where that counts. */
  readonly promptTokens: () => number
  /** How many tokens the reply may have. */
  readonly replyTokens: number
}

/** Where visits are counted and put down. */
export interface VisitsOptions {
  readonly limiter: Pick<LimitKeeper, 'reserve'>
  readonly ledger: Ledger
  /** Told when the end of a request could not be put down yet. */
  readonly onFailure: (requestId: string, error: unknown) => void
  /** Told what a request has used that was answered, and by which model of the settings. */
  readonly onUsed?: (configuredName: string, used: Used) => void
}

/** The chat requests that ask models: each holds what it may use, and is put down in the ledger with what it used. */
export class Visits {
  readonly #options: VisitsOptions

  constructor(options: VisitsOptions) {
    this.#options = options
  }

  /**
   * Lets a request in; whoever calls this ends the visit, however the request ends.
   * @throws ApiError 429 when a limit is reached, and what the ledger says when it cannot be written
   */
  async enter(visitor: Visitor): Promise<Visit> {
    const { limiter, ledger } = this.#options
    const arrived = performance.now()
    const created = unixSeconds()
    const reservation = await limiter.reserve(visitor.key, () => visitor.promptTokens() + visitor.replyTokens)
    const visit = new Visit(visitor, reservation, { arrived, created }, this.#options)
    if (!reservation.isLasting) return visit
    try {
      await ledger.begin(visit.entry('running', { promptTokens: 0, completionTokens: 0, isExact: false }))
    } catch (error) {
      void reservation.settle(0)
      throw error
    }
    return visit
  }
}

/** One chat request, from before a model is asked until its reply is about to be complete. */
export class Visit {
  /** Counts what the reply uses. */
  readonly meter = new Meter()
  readonly #visitor: Visitor
  readonly #reservation: Reservation
  readonly #times: { readonly arrived: number; readonly created: number }
  readonly #options: VisitsOptions
  #firstTokenMs: number | null = null
  #modelUsed: string | null = null
  #configuredName: string | undefined
  #retries = 0
  #isOver = false

  constructor(
    visitor: Visitor,
    reservation: Reservation,
    times: { readonly arrived: number; readonly created: number },
    options: VisitsOptions,
  ) {
    this.#visitor = visitor
    this.#reservation = reservation
    this.#times = times
    this.#options = options
  }

  /** What tells the caller how many tokens are left. */
  get headers(): Headers {
    const { allowance } = this.#reservation
    return allowance ? openAiTokenHeaders(allowance) : {}
  }

  /** The first event of a stream is there. */
  began(): void {
    this.#firstTokenMs ??= this.#elapsed()
  }

  /**
   * Which model answers, by its name, and how often it was asked again.
   * @param configuredName the name as it is written in `models.json`, where that is another
   */
  answeredBy(model: string, retries: number, configuredName = model): void {
    this.#modelUsed = model
    this.#configuredName = configuredName
    this.#retries = retries
  }

  /**
   * Settles what was used, and puts it down; only the first end of a visit counts.
   * @param state how the request ended: a finish reason, or what `failedState` gives
   * @returns a promise where the caller may hear of the end only once it is kept, or other replicas know of it; it never
   *   rejects
   */
  end(state: string): Promise<void> | undefined {
    if (this.#isOver) return undefined
    this.#isOver = true
    // A model that refused, or failed before it said anything, has used nothing that anybody told us.
    const isFree = !this.meter.hasBegun && (state === 'refused' || state.endsWith('_error'))
    const used = this.meter.used(isFree ? () => 0 : this.#visitor.promptTokens)
    const { ledger, onFailure, onUsed } = this.#options
    const entry = this.entry(state, used)
    const { isLasting } = this.#reservation
    const recorded = isLasting ? ledger.finish(entry) : undefined
    const told = recorded?.catch((error: unknown) => onFailure(entry.id, error))
    const settled = this.#reservation.settle(used.promptTokens + used.completionTokens, recorded)
    if (!recorded) ledger.record(entry)
    if (this.#configuredName !== undefined) onUsed?.(this.#configuredName, used)
    return settled ?? told
  }

  /** What the ledger keeps of it. */
  entry(state: string, { promptTokens, completionTokens, isExact }: ReturnType<Meter['used']>): LedgerEntry {
    const { id, key, model, character } = this.#visitor
    return {
      id,
      account: key.account.id,
      keyId: key.id,
      keyPrefix: key.prefix,
      model,
      modelUsed: this.#modelUsed,
      character,
      created: this.#times.created,
      reservedTokens: this.#reservation.tokens,
      promptTokens,
      completionTokens,
      tokensExact: isExact,
      firstTokenMs: this.#firstTokenMs,
      totalMs: this.#elapsed(),
      retries: this.#retries,
      state,
    }
  }

  #elapsed(): number {
    return Math.round(performance.now() - this.#times.arrived)
  }
}

/** The states of failures that are named by their error's code or by something shorter. */
const states: Readonly<Record<string, string>> = {
  client_gone: 'client_gone',
  upstream_timeout: 'timeout',
  service_stopping: 'interrupted',
  key_revoked: 'key_revoked',
  key_expired: 'key_revoked',
  account_suspended: 'key_revoked',
  account_deleted: 'key_revoked',
  internal_error: 'internal_error',
}

/** The state in which a request has ended that failed with this error. */
export function failedState({ code, status }: Pick<ApiError, 'code' | 'status'>): string {
  return states[code] ?? (status >= 500 || status === 429 ? 'upstream_error' : 'refused')
}
