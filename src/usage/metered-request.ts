import type { Key } from '../access/access.ts'
import type { Headers } from '../access/guard.ts'
import { openAiTokenHeaders } from '../limits/headers.ts'
import type { Limiter, Reservation } from '../limits/limiter.ts'
import { type Moment, nextMoment } from '../time.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import { type End, type Meter, Outcome, type Used } from './outcome.ts'

/** A chat request that is about to call a model. */
export interface RequestToMeter {
  /** The request's id. */
  readonly id: string
  readonly key: Key
  /** The model's name in the request. */
  readonly model: string
  /** Such as `Fern@sha256:…`; null without a character. */
  readonly character: string | null
  /** Estimates the prompt's tokens; called only when the number is needed. */
  readonly promptTokens: () => number
  /** The tokens that the reply may have; called only when the number is needed. */
  readonly replyTokens: () => number
}

/** Observes the usage of requests, to count it. */
export interface UsageObserver {
  /** @param model the name in `models.json` of the model that answered */
  used(model: string, used: Used): void
  /** Called when an upstream has read under half of a prompt. @param model as for `used` */
  truncated(model: string): void
}

/** The objects that metering uses. */
export interface MeteringOptions {
  readonly limiter: Pick<Limiter, 'reserve'>
  readonly ledger: Ledger
  /** Called when the end of a request could not be recorded yet. */
  readonly onFailure: (requestId: string, error: unknown) => void
  readonly watch?: UsageObserver
}

/** The least tokens that are charged for each second of an upstream's work, if the caller ended the request. */
const tokensPerSecond = 60

/** Meters chat requests: reserves tokens for each, and records its usage in the ledger. */
export class Metering {
  readonly #options: MeteringOptions

  constructor(options: MeteringOptions) {
    this.#options = options
  }

  /**
   * Admits a request. The caller must call `end` of the metered request, however the chat request ends.
   * @param outcome is filled while the request is in flight
   * @returns without a promise if neither a limit nor the ledger must be waited for
   * @throws the errors of `Limiter.reserve` and of `Ledger.begin`
   */
  enter(request: RequestToMeter, outcome = new Outcome()): MeteredRequest | Promise<MeteredRequest> {
    const times = { arrived: performance.now(), created: nextMoment() }
    const begin = (reservation: Reservation) => {
      const metered = new MeteredRequest(request, outcome, reservation, times, this.#options)
      return reservation.hasSpendingLimit ? this.#recorded(metered, reservation) : metered
    }
    const reserved = this.#options.limiter.reserve(request.key, () => request.promptTokens() + request.replyTokens())
    return reserved instanceof Promise ? reserved.then(begin) : begin(reserved)
  }

  /** Records that a request begins. @throws the errors of `Ledger.begin` */
  async #recorded(metered: MeteredRequest, reservation: Reservation): Promise<MeteredRequest> {
    try {
      await this.#options.ledger.begin(metered.entry({ promptTokens: 0, completionTokens: 0, isExact: false }))
      return metered
    } catch (error) {
      void reservation.settle(0)
      throw error
    }
  }
}

/** One chat request, from before a model is called until its reply is about to end. */
export class MeteredRequest {
  readonly #request: RequestToMeter
  readonly #outcome: Outcome
  readonly #reservation: Reservation
  readonly #times: { readonly arrived: number; readonly created: Moment }
  readonly #options: MeteringOptions
  #firstTokenMs: number | null = null

  constructor(
    request: RequestToMeter,
    outcome: Outcome,
    reservation: Reservation,
    times: { readonly arrived: number; readonly created: Moment },
    options: MeteringOptions,
  ) {
    this.#request = request
    this.#outcome = outcome
    this.#reservation = reservation
    this.#times = times
    this.#options = options
  }

  /** The token counter of the request. */
  get meter(): Meter {
    return this.#outcome.meter
  }

  /** Reply headers with the tokens that are left in this minute; empty without a limit. */
  get headers(): Headers {
    const { allowance } = this.#reservation
    return allowance ? openAiTokenHeaders(allowance) : {}
  }

  /** Notes the time of a stream's first event. */
  began(): void {
    this.#firstTokenMs ??= this.#elapsed()
  }

  /**
   * Settles the reservation, and records the usage. Only the first call for a request counts.
   * @returns a promise that the reply must wait for before it ends; undefined if the reply need not wait. The reply waits for two
   *   writes: of the usage, under a limit for a day or a month, and of the counts that replicas share. The promise resolves when
   *   the writes have succeeded or failed, and never rejects
   */
  end(end: End): Promise<void> | undefined {
    const outcome = this.#outcome
    if (!outcome.end(end)) return undefined
    // If the tokens cannot be counted, the reserved tokens are spent.
    let used: Used = { promptTokens: this.#reservation.tokens, completionTokens: 0, isExact: false }
    let settled: Promise<void> | undefined
    try {
      used = this.#withUnseen(outcome.meter.used(outcome.isFree ? () => 0 : this.#request.promptTokens))
      this.#tellObserver(used)
    } finally {
      settled = this.#settle(used)
    }
    return settled
  }

  /**
   * The tokens that are charged. The upstream may have written tokens that nobody has seen. If the caller ended the request, these
   * are charged by time, up to the reservation: otherwise a caller that always leaves early would use tokens that no limit counts.
   */
  #withUnseen(used: Used): Used {
    const { isEndedByCaller, upstreamSeconds } = this.#outcome
    if (used.isExact || !isEndedByCaller || upstreamSeconds === 0) return used
    const unseen = Math.min(this.#request.replyTokens(), Math.ceil(upstreamSeconds * tokensPerSecond))
    return { ...used, completionTokens: Math.max(used.completionTokens, unseen) }
  }

  #tellObserver(used: Used): void {
    const { answering, truncated } = this.#outcome
    const { watch } = this.#options
    if (!answering) return
    watch?.used(answering.configuredName, used)
    if (truncated !== null) watch?.truncated(answering.configuredName)
  }

  /** Records the usage, and settles the reservation however the record ends. @returns the promise of `end` */
  #settle(used: Used): Promise<void> | undefined {
    let recorded: Promise<void> | undefined
    let settled: Promise<void> | undefined
    try {
      recorded = this.#record(this.entry(used))
    } finally {
      settled = this.#reservation.settle(used.promptTokens + used.completionTokens, recorded)
    }
    return settled ?? recorded?.catch((error: unknown) => this.#options.onFailure(this.#request.id, error))
  }

  /** Records the end. @returns a promise if a limit for a day or a month applies: then the reply waits for the record */
  #record(entry: LedgerEntry): Promise<void> | undefined {
    const { ledger } = this.#options
    if (this.#reservation.hasSpendingLimit) return ledger.finish(entry)
    ledger.record(entry)
    return undefined
  }

  /** The request's record in the ledger. */
  entry({ promptTokens, completionTokens, isExact }: Used): LedgerEntry {
    const { id, key, model, character } = this.#request
    const { answering, state, truncated } = this.#outcome
    const { created } = this.#times
    return {
      id,
      account: key.account.id,
      keyId: key.subject,
      maker: key.maker?.subject ?? null,
      keyPrefix: key.prefix,
      model,
      modelUsed: answering?.name ?? null,
      character,
      created: created.second,
      microsecond: created.microsecond,
      reservedTokens: this.#reservation.tokens,
      promptTokens,
      completionTokens,
      tokensExact: isExact,
      firstTokenMs: this.#firstTokenMs,
      totalMs: this.#elapsed(),
      retries: answering?.retries ?? 0,
      state,
      upstreamTruncated: truncated,
    }
  }

  #elapsed(): number {
    return Math.round(performance.now() - this.#times.arrived)
  }
}
